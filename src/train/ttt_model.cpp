#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "train/guard.h"
#include "train/kernels.h"
#include "train/ttt_state.h"

namespace aerie {
namespace {

constexpr int kMostSteps = 64;  // merge_attention keeps one score a step on the stack

// Where each tensor stands in the block: matrices first, in the order that joins q, k, v and gate, up; then the norms.
std::vector<DraftTensorPlace> places_of(const DraftShape& shape, int64_t& count, int64_t& matrix_count) {
  const std::vector<std::string> matrices = {"fc.weight",
                                             "midlayer.self_attn.q_proj.weight",
                                             "midlayer.self_attn.k_proj.weight",
                                             "midlayer.self_attn.v_proj.weight",
                                             "midlayer.self_attn.o_proj.weight",
                                             "midlayer.mlp.gate_proj.weight",
                                             "midlayer.mlp.up_proj.weight",
                                             "midlayer.mlp.down_proj.weight",
                                             "lm_head.weight"};
  std::vector<DraftTensorPlace> places;
  const auto expected = expected_tensors(shape);
  const auto place = [&](const std::string& name, const Shape& s) {
    int64_t n = 1;
    for (const int64_t dimension : s) n *= dimension;
    places.push_back({name, s, count, n});
    count += n;
  };
  count = 0;
  for (const std::string& name : matrices) {
    for (const auto& [key, s] : expected) {
      if (key == name) place(name, s);
    }
  }
  matrix_count = count;
  for (const auto& [key, s] : expected) {
    if (key != "d2t" && std::find(matrices.begin(), matrices.end(), key) == matrices.end()) place(key, s);
  }
  return places;
}

DraftTensors tensors_in(float* block, const std::vector<DraftTensorPlace>& places) {
  const auto at = [&](std::string_view name) -> float* {
    for (const DraftTensorPlace& p : places) {
      if (p.name == name) return block + p.offset;
    }
    return nullptr;
  };
  DraftTensors t;
  t.fc = at("fc.weight");
  t.qkv = at("midlayer.self_attn.q_proj.weight");
  t.o = at("midlayer.self_attn.o_proj.weight");
  t.gate_up = at("midlayer.mlp.gate_proj.weight");
  t.down = at("midlayer.mlp.down_proj.weight");
  t.lm_head = at("lm_head.weight");
  t.input_layernorm = at("midlayer.input_layernorm.weight");
  t.hidden_norm = at("midlayer.hidden_norm.weight");
  t.post_norm = at("midlayer.post_attention_layernorm.weight");
  t.norm = at("norm.weight");
  t.input_norm = at("input_norm.weight");
  t.fc_norm = at("fc_norm.0.weight");
  return t;
}

Status check_shape(const DraftShape& s, const StoredHead& head, const TttOptions& options) {
  if (options.steps < 1 || options.steps > kMostSteps) {
    return invalid(fmt::format("ttt_steps is {}; 1 to {} are possible", options.steps, kMostSteps));
  }
  if (s.target_hidden_size != s.hidden_size) {
    return invalid(
        fmt::format("the draft's hidden size {} differs from the target's {}; a draft that shares the target's "
                    "embeddings must have the same",
                    s.hidden_size, s.target_hidden_size));
  }
  if (s.head_count < 1 || s.kv_head_count < 1 || s.head_count % s.kv_head_count != 0 || s.head_size < 2 ||
      s.head_size % 2 != 0) {
    return invalid(
        fmt::format("{} query heads, {} key heads of size {}: query heads must be a multiple of key heads, and the "
                    "size even",
                    s.head_count, s.kv_head_count, s.head_size));
  }
  if (s.norm_before_fc && s.fc_norm) return invalid("norm_before_fc and fc_norm exclude each other");
  const auto v = static_cast<size_t>(s.vocab_size), ht = static_cast<size_t>(s.target_hidden_size);
  if (head.norm.size() != ht || head.lm_head.size() != v * ht ||
      (!head.embeddings.empty() && head.embeddings.size() != v * ht)) {
    return invalid(
        fmt::format("the target's head has {} norm, {} lm_head and {} embedding values, but the draft's target has "
                    "{} tokens of hidden size {}",
                    head.norm.size(), head.lm_head.size(), head.embeddings.size(), v, ht));
  }
  return ok_status();
}

// Draft ids to target ids; every one in range and none twice.
Status read_vocabulary(const Checkpoint& checkpoint, std::vector<int32_t>& target_of, std::vector<uint8_t>& drafted) {
  const Tensor* d2t = checkpoint.find("d2t");
  if (d2t == nullptr) return invalid("the checkpoint has no d2t");
  TRY(const std::vector<int64_t> offsets, to_int64(d2t->view()));
  drafted.assign(static_cast<size_t>(checkpoint.shape.vocab_size), 0);
  for (size_t i = 0; i < offsets.size(); ++i) {
    const int64_t id = static_cast<int64_t>(i) + offsets[i];
    if (id < 0 || id >= checkpoint.shape.vocab_size || drafted[static_cast<size_t>(id)] != 0) {
      return invalid(fmt::format("d2t maps draft id {} to target id {}, which is {}", i, id,
                                 id < 0 || id >= checkpoint.shape.vocab_size ? "out of range" : "taken already"));
    }
    drafted[static_cast<size_t>(id)] = 1;
    target_of.push_back(static_cast<int32_t>(id));
  }
  return ok_status();
}

std::vector<Tensor> tensors_of(const TttModel::State& state, const float* block, const std::string& prefix) {
  std::vector<Tensor> tensors;
  for (const DraftTensorPlace& p : state.places) {
    tensors.push_back(tensor_f32(prefix + p.name, p.shape, {block + p.offset, static_cast<size_t>(p.count)}));
  }
  return tensors;
}

Status fill(const TttModel::State& state, float* block, const std::vector<Tensor>& tensors, const std::string& prefix) {
  for (const DraftTensorPlace& p : state.places) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == prefix + p.name; });
    if (found == tensors.end()) return invalid(fmt::format("tensor {}{} is missing", prefix, p.name));
    TRY(const std::vector<float> values, to_floats(found->view()));
    if (static_cast<int64_t>(values.size()) != p.count) {
      return invalid(fmt::format("tensor {}{} has shape {}, expected {}", prefix, p.name, shape_text(found->shape),
                                 shape_text(p.shape)));
    }
    std::copy(values.begin(), values.end(), block + p.offset);
  }
  return ok_status();
}

Status check_sequence(const TttSequence& s, size_t index, const DraftShape& shape) {
  const size_t n = s.ids.size(), ht = static_cast<size_t>(shape.target_hidden_size);
  if (s.loss_mask.size() != n || s.aux.size() != n * 3 * ht || s.last.size() != n * ht ||
      (!s.teacher_argmax.empty() && s.teacher_argmax.size() != n)) {
    return invalid(
        fmt::format("sequence {} of the batch has {} ids, {} mask entries, {} aux and {} last values, which do not "
                    "fit hidden size {}",
                    index, n, s.loss_mask.size(), s.aux.size(), s.last.size(), ht));
  }
  for (const int32_t id : s.ids) {
    if (id < 0 || id >= shape.vocab_size) {
      return invalid(fmt::format("sequence {} of the batch has token id {}; the target has {} tokens", index, id,
                                 shape.vocab_size));
    }
  }
  return ok_status();
}

}  // namespace

dense::HeadShape TttModel::State::heads() const {
  return {shape.head_count, shape.kv_head_count, shape.head_size,
          1.0 / std::sqrt(static_cast<double>(shape.head_size))};
}

std::optional<double> acceptance_estimate(const TttOutputs& outputs) {
  if (outputs.chain_total.empty() || outputs.chain_total.front() == 0) return std::nullopt;
  double estimate = 1;
  for (size_t k = 0; k < outputs.chain_total.size() && outputs.chain_total[k] > 0; ++k) {
    estimate += static_cast<double>(outputs.chain_correct[k]) / static_cast<double>(outputs.chain_total[k]);
  }
  return estimate;
}

TttModel::TttModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
TttModel::~TttModel() = default;
const DraftShape& TttModel::shape() const { return state_->shape; }
const TttOptions& TttModel::options() const { return state_->options; }

Result<std::unique_ptr<TttModel>> TttModel::create(const Checkpoint& checkpoint, std::shared_ptr<const StoredHead> head,
                                                   const TttOptions& options) {
  CHECKED(check_shape(checkpoint.shape, *head, options));
  auto state = std::make_unique<State>();
  state->shape = checkpoint.shape;
  state->options = options;
  state->head = std::move(head);
  CHECKED(read_vocabulary(checkpoint, state->target_of, state->drafted));
  state->places = places_of(state->shape, state->count, state->matrix_count);
  state->weights = tensors_in(state->weights_block.zeroed(state->count), state->places);
  state->gradients = tensors_in(state->gradients_block.zeroed(state->count), state->places);
  CHECKED(fill(*state, state->weights_block.data(), checkpoint.tensors, ""));
  const auto ht = static_cast<size_t>(state->shape.target_hidden_size);
  float* rows = state->teacher_head.size(static_cast<int64_t>(state->target_of.size() * ht));
  for (size_t i = 0; i < state->target_of.size(); ++i) {
    const float* from = state->head->lm_head.data() + static_cast<size_t>(state->target_of[i]) * ht;
    std::copy(from, from + ht, rows + i * ht);
  }
  dense::set_threads(options.threads);
  return std::unique_ptr<TttModel>(new TttModel(std::move(state)));
}

Result<TttOutputs> TttModel::run(std::span<const TttSequence> batch, const TttWants& wants) {
  size_t tokens = 0;
  for (const TttSequence& s : batch) tokens += s.ids.size();
  return guarded(fmt::format("computing a batch of {} tokens", tokens), "lower batch_tokens or max_length",
                 [&] { return state_->run(batch, wants); });
}

Result<TttOutputs> TttModel::State::run(std::span<const TttSequence> batch, const TttWants& wants) {
  const bool labelled = wants.accuracy || options.drop_out_of_vocabulary;
  std::vector<std::vector<int32_t>> labels;
  for (size_t i = 0; i < batch.size(); ++i) {
    CHECKED(check_sequence(batch[i], i, shape));
    if (!labelled) continue;
    const auto& known = batch[i].teacher_argmax;
    labels.push_back(known.empty() ? teacher_argmax(batch[i].last) : std::vector<int32_t>(known.begin(), known.end()));
  }
  const Plan plan = make_plan(batch, labels, drafted, options, wants);
  const auto steps = static_cast<size_t>(options.steps);
  TttOutputs outputs;
  outputs.step_loss.assign(steps, 0);
  outputs.loss_rows = plan.loss_rows;
  for (auto* counts : {&outputs.correct, &outputs.total, &outputs.chain_correct, &outputs.chain_total})
    counts->assign(steps, 0);
  if (wants.gradients) gradients_block.zeroed(count);
  if (plan.rows > 0) {
    forward(batch, plan);
    CHECKED(loss(batch, plan, wants, outputs));
    if (wants.gradients) backward(plan);
  }
  double weight = 1;
  for (size_t k = 0; k < steps; ++k, weight *= options.step_decay) outputs.loss += weight * outputs.step_loss[k];
  if (wants.logits) {
    const int64_t h = shape.hidden_size, vd = shape.draft_vocab_size;
    for (size_t k = 0; k < steps; ++k) {
      outputs.logits.emplace_back(static_cast<size_t>(plan.rows * vd));
      if (plan.rows == 0) continue;
      dense::multiply_nt({outputs.logits[k].data(), plan.rows, vd, vd},
                         {head_input(static_cast<int>(k)), plan.rows, h, h}, {weights.lm_head, vd, h, h},
                         dense::Into::kReplace);
    }
  }
  return outputs;
}

std::vector<int32_t> TttModel::teacher_argmax(std::span<const float> last) const {
  return state_->teacher_argmax(last);
}

std::vector<int32_t> TttModel::State::teacher_argmax(std::span<const float> last) const {
  constexpr int64_t kRows = 64;
  const int64_t ht = shape.target_hidden_size, v = shape.vocab_size, n = static_cast<int64_t>(last.size()) / ht;
  std::vector<int32_t> best(static_cast<size_t>(n));
  Floats hidden, inverse, logits;
  for (int64_t first = 0; first < n; first += kRows) {
    const int64_t part = std::min(kRows, n - first);
    const dense::Matrix rows{hidden.size(part * ht), part, ht, ht};
    std::memcpy(rows.data, last.data() + first * ht, static_cast<size_t>(part * ht) * sizeof(float));
    if (options.last_is_prenorm) {
      kernels::rms_norm(rows, rows, head->norm.data(), shape.rms_norm_eps, inverse.size(part));
    }
    float* z = logits.size(part * v);
    dense::multiply_nt({z, part, v, v}, rows, {head->lm_head.data(), v, ht, ht}, dense::Into::kReplace);
    kernels::parallel(part, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        best[static_cast<size_t>(first + r)] = static_cast<int32_t>(kernels::argmax(z + r * v, v));
    });
  }
  return best;
}

Result<double> TttModel::update(const AdamWSettings& settings, int64_t step) {
  State& s = *state_;
  const int64_t columns = 3 * int64_t{s.shape.target_hidden_size}, fc_count = s.shape.hidden_size * columns;
  const bool scaled = !s.feature_scale.empty();
  if (scaled) kernels::scale_columns({s.gradients.fc, s.shape.hidden_size, columns, columns}, s.feature_scale.data());
  const double norm = std::sqrt(kernels::sum_of_squares(s.gradients_block.data(), s.count));
  if (!std::isfinite(norm)) return invalid("the gradient's norm is not finite");
  if (s.mean_block.count() == 0) {
    s.mean_block.zeroed(s.count);
    s.square_block.zeroed(s.count);
  }
  kernels::AdamArgs args{};
  args.lr = settings.lr;
  args.beta1 = settings.beta1;
  args.beta2 = settings.beta2;
  args.epsilon = settings.epsilon;
  args.weight_decay = settings.weight_decay;
  args.gradient_scale = settings.clip_norm > 0 && norm > settings.clip_norm ? settings.clip_norm / norm : 1.0;
  args.correction1 = 1.0 - std::pow(settings.beta1, static_cast<double>(step));
  args.correction2 = 1.0 - std::pow(settings.beta2, static_cast<double>(step));
  const auto part = [&](int64_t begin, int64_t end) {
    kernels::adamw(args, s.weights_block.data() + begin, s.gradients_block.data() + begin, s.mean_block.data() + begin,
                   s.square_block.data() + begin, end - begin);
  };
  if (scaled) {  // fc stands first in the block
    kernels::adamw_columns(args, {s.weights.fc, s.shape.hidden_size, columns, columns}, s.gradients.fc,
                           s.mean_block.data(), s.square_block.data(), s.feature_scale.data());
  }
  // lm_head stands last among the matrices.
  const int64_t head_count = int64_t{s.shape.draft_vocab_size} * s.shape.hidden_size;
  part(scaled ? fc_count : 0, s.matrix_count - (s.options.freeze_head ? head_count : 0));
  args.weight_decay = 0;
  part(s.matrix_count, s.count);
  return norm;
}

Status TttModel::set_feature_rms(std::span<const float> rms) {
  const size_t columns = 3 * static_cast<size_t>(state_->shape.target_hidden_size);
  if (rms.size() != columns)
    return invalid(fmt::format("{} feature scales were given, fc reads {}", rms.size(), columns));
  std::vector<float> scale;
  for (const float value : rms) {
    if (!(value > 0) || !std::isfinite(value))
      return invalid(fmt::format("a feature's rms is {}, not positive", value));
    scale.push_back(1.0f / value);
  }
  state_->feature_scale = std::move(scale);
  return ok_status();
}

std::vector<Tensor> TttModel::weights() const { return tensors_of(*state_, state_->weights_block.data(), ""); }
std::vector<Tensor> TttModel::gradients() const { return tensors_of(*state_, state_->gradients_block.data(), ""); }

std::vector<Tensor> TttModel::optimizer_state() const {
  if (state_->mean_block.count() == 0) return {};  // before the first update
  const auto columns = static_cast<int64_t>(state_->feature_scale.size());
  std::vector<Tensor> all = tensors_of(*state_, state_->mean_block.data(), "exp_avg.");
  std::vector<Tensor> squares = tensors_of(*state_, state_->square_block.data(), "exp_avg_sq.");
  std::move(squares.begin(), squares.end(), std::back_inserter(all));
  if (columns > 0) all.push_back(tensor_f32("feature_scale", {columns}, state_->feature_scale));
  return all;
}

Status TttModel::restore_optimizer(const std::vector<Tensor>& state) {
  CHECKED(fill(*state_, state_->mean_block.zeroed(state_->count), state, "exp_avg."));
  CHECKED(fill(*state_, state_->square_block.zeroed(state_->count), state, "exp_avg_sq."));
  state_->feature_scale.clear();
  for (const Tensor& t : state) {
    if (t.name != "feature_scale") continue;
    TRY(state_->feature_scale, to_floats(t.view()));
    if (static_cast<int64_t>(state_->feature_scale.size()) != 3 * int64_t{state_->shape.target_hidden_size}) {
      return invalid(
          fmt::format("tensor feature_scale has shape {}, which does not fit the draft", shape_text(t.shape)));
    }
  }
  return ok_status();
}

}  // namespace aerie
