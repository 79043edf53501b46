#include "draft/sequential.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace aerie {
namespace {

using Row = std::vector<double>;

Row normed(std::span<const double> x, const std::vector<float>& weight, double eps) {
  double squares = 0;
  for (double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Row y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

// y = W x with W row-major [out, x.size()].
Row times(const std::vector<float>& matrix, const Row& x) {
  const size_t columns = x.size();
  Row y(matrix.size() / columns);
  for (size_t r = 0; r < y.size(); ++r) {
    const float* row = matrix.data() + r * columns;
    double sum = 0;
    for (size_t c = 0; c < columns; ++c) sum += row[c] * x[c];
    y[r] = sum;
  }
  return y;
}

Row joined(const Row& a, const Row& b) {
  Row both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

Row widened(std::span<const float> x) { return Row(x.begin(), x.end()); }

std::vector<float> narrowed(const Row& x) { return std::vector<float>(x.begin(), x.end()); }

// Rotates pairs (i, i + size/2) of every head by position * theta^(-2i/size): Hugging Face's half-split convention.
void rotate(Row& heads, int head_size, int position, double theta) {
  const int half = head_size / 2;
  for (size_t at = 0; at < heads.size(); at += static_cast<size_t>(head_size)) {
    for (int i = 0; i < half; ++i) {
      const double angle = position * std::pow(theta, -2.0 * i / head_size);
      double& a = heads[at + static_cast<size_t>(i)];
      double& b = heads[at + static_cast<size_t>(i + half)];
      const double x = a, y = b;
      a = x * std::cos(angle) - y * std::sin(angle);
      b = y * std::cos(angle) + x * std::sin(angle);
    }
  }
}

}  // namespace

struct SequentialDraft::State {
  DraftShape shape;
  std::span<const float> embeddings;
  std::vector<int64_t> d2t;
  std::vector<float> fc, q, k, v, o, gate, up, down, embed_norm, hidden_norm, post_norm, norm, lm_head, input_norm;
  std::vector<float> fc_norm[3];
  std::vector<Row> keys, values;  // of each slot, all kv heads

  Status take(const Checkpoint& checkpoint);
  Row fuse(std::span<const float> aux) const;
  Row attend(const Row& input);
  DraftOutput run(const Row& state, int32_t token);
};

Status SequentialDraft::State::take(const Checkpoint& checkpoint) {
  const auto floats = [&](std::string_view name, std::vector<float>& into) -> Status {
    const Tensor* tensor = checkpoint.find(name);
    if (tensor == nullptr) return invalid(fmt::format("the draft has no tensor '{}'", name));
    TRY(into, to_floats(tensor->view()));
    return ok_status();
  };
  const std::string layer = "midlayer.";
  CHECKED(floats("fc.weight", fc));
  CHECKED(floats(layer + "self_attn.q_proj.weight", q));
  CHECKED(floats(layer + "self_attn.k_proj.weight", k));
  CHECKED(floats(layer + "self_attn.v_proj.weight", v));
  CHECKED(floats(layer + "self_attn.o_proj.weight", o));
  CHECKED(floats(layer + "mlp.gate_proj.weight", gate));
  CHECKED(floats(layer + "mlp.up_proj.weight", up));
  CHECKED(floats(layer + "mlp.down_proj.weight", down));
  CHECKED(floats(layer + "input_layernorm.weight", embed_norm));
  CHECKED(floats(layer + "hidden_norm.weight", hidden_norm));
  CHECKED(floats(layer + "post_attention_layernorm.weight", post_norm));
  CHECKED(floats("norm.weight", norm));
  CHECKED(floats("lm_head.weight", lm_head));
  if (shape.norm_before_fc) CHECKED(floats("input_norm.weight", input_norm));
  for (int i = 0; shape.fc_norm && i < 3; ++i) CHECKED(floats(fmt::format("fc_norm.{}.weight", i), fc_norm[i]));
  const Tensor* map = checkpoint.find("d2t");
  if (map == nullptr) return invalid("the draft has no tensor 'd2t'");
  TRY(d2t, to_int64(map->view()));
  return ok_status();
}

Row SequentialDraft::State::fuse(std::span<const float> aux) const {
  Row x = widened(aux);
  if (shape.norm_before_fc) x = normed(x, input_norm, shape.rms_norm_eps);
  if (shape.fc_norm) {
    const auto width = static_cast<size_t>(shape.target_hidden_size);
    Row parts;
    for (size_t i = 0; i < 3; ++i) {
      parts = joined(parts, normed(std::span(x).subspan(i * width, width), fc_norm[i], shape.rms_norm_eps));
    }
    x = parts;
  }
  return times(fc, x);
}

// Appends the slot's key and value and returns the attention's output before o_proj.
Row SequentialDraft::State::attend(const Row& input) {
  const int position = static_cast<int>(keys.size());
  Row query = times(q, input), key = times(k, input);
  rotate(query, shape.head_size, position, shape.rope_theta);
  rotate(key, shape.head_size, position, shape.rope_theta);
  keys.push_back(std::move(key));
  values.push_back(times(v, input));

  const auto size = static_cast<size_t>(shape.head_size);
  const auto group = static_cast<size_t>(shape.head_count / shape.kv_head_count);
  Row out(query.size(), 0.0);
  Row weights(keys.size());
  for (size_t head = 0; head < static_cast<size_t>(shape.head_count); ++head) {
    const size_t from = head * size, kv = head / group * size;
    double highest = -INFINITY;
    for (size_t s = 0; s < keys.size(); ++s) {
      double dot = 0;
      for (size_t i = 0; i < size; ++i) dot += query[from + i] * keys[s][kv + i];
      weights[s] = dot / std::sqrt(static_cast<double>(size));
      highest = std::max(highest, weights[s]);
    }
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - highest);
    for (size_t s = 0; s < keys.size(); ++s) {
      for (size_t i = 0; i < size; ++i) out[from + i] += weights[s] / sum * values[s][kv + i];
    }
  }
  return out;
}

DraftOutput SequentialDraft::State::run(const Row& state, int32_t token) {
  const double eps = shape.rms_norm_eps;
  const auto width = static_cast<size_t>(shape.target_hidden_size);
  const Row embedding = widened(embeddings.subspan(static_cast<size_t>(token) * width, width));
  const Row hidden = normed(state, hidden_norm, eps);
  Row residual = shape.norm_before_residual ? hidden : state;

  const Row attention = times(o, attend(joined(normed(embedding, embed_norm, eps), hidden)));
  for (size_t i = 0; i < residual.size(); ++i) residual[i] += attention[i];

  const Row inner = normed(residual, post_norm, eps);
  Row gated = times(gate, inner);
  const Row lifted = times(up, inner);
  for (size_t i = 0; i < gated.size(); ++i) gated[i] = gated[i] / (1.0 + std::exp(-gated[i])) * lifted[i];
  const Row mlp = times(down, gated);
  for (size_t i = 0; i < residual.size(); ++i) residual[i] += mlp[i];

  const Row final_state = normed(residual, norm, eps);
  DraftOutput out;
  out.state = narrowed(shape.norm_output ? final_state : residual);
  out.logits = narrowed(times(lm_head, shape.normed_logits ? final_state : residual));
  out.best_draft = static_cast<int32_t>(std::max_element(out.logits.begin(), out.logits.end()) - out.logits.begin());
  out.best_token = out.best_draft + static_cast<int32_t>(d2t[static_cast<size_t>(out.best_draft)]);
  return out;
}

SequentialDraft::SequentialDraft(std::unique_ptr<State> state) : state_(std::move(state)) {}
SequentialDraft::SequentialDraft(SequentialDraft&&) noexcept = default;
SequentialDraft& SequentialDraft::operator=(SequentialDraft&&) noexcept = default;
SequentialDraft::~SequentialDraft() = default;

Result<SequentialDraft> SequentialDraft::make(const Checkpoint& checkpoint, std::span<const float> embeddings) {
  const DraftShape& shape = checkpoint.shape;
  for (const auto& [name, expected] : expected_tensors(shape)) {
    const Tensor* tensor = checkpoint.find(name);
    if (tensor == nullptr) return invalid(fmt::format("the draft has no tensor '{}'", name));
    if (tensor->shape != expected) {
      return invalid(fmt::format("the draft's tensor '{}' is {} and must be {}", name, shape_text(tensor->shape),
                                 shape_text(expected)));
    }
  }
  if (shape.hidden_size != shape.target_hidden_size) {
    return invalid(
        fmt::format("the draft's width {} differs from the target's {}, so the target's embeddings do not fit it",
                    shape.hidden_size, shape.target_hidden_size));
  }
  const size_t needed = static_cast<size_t>(shape.vocab_size) * static_cast<size_t>(shape.target_hidden_size);
  if (embeddings.size() != needed) {
    return invalid(fmt::format("the embedding table holds {} numbers and must hold {} ({} tokens of {})",
                               embeddings.size(), needed, shape.vocab_size, shape.target_hidden_size));
  }
  auto state = std::make_unique<State>();
  state->shape = shape;
  state->embeddings = embeddings;
  CHECKED(state->take(checkpoint));
  return SequentialDraft(std::move(state));
}

DraftOutput SequentialDraft::feed(std::span<const float> aux, int32_t next_token) {
  return state_->run(state_->fuse(aux), next_token);
}

DraftOutput SequentialDraft::step(std::span<const float> state, int32_t next_token) {
  return state_->run(widened(state), next_token);
}

int SequentialDraft::length() const { return static_cast<int>(state_->keys.size()); }

void SequentialDraft::rollback(int length) {
  if (length >= this->length()) return;
  state_->keys.resize(static_cast<size_t>(length));
  state_->values.resize(static_cast<size_t>(length));
}

std::vector<float> SequentialDraft::cache() const {
  std::vector<float> all;
  for (size_t s = 0; s < state_->keys.size(); ++s) {
    all.insert(all.end(), state_->keys[s].begin(), state_->keys[s].end());
    all.insert(all.end(), state_->values[s].begin(), state_->values[s].end());
  }
  return all;
}

}  // namespace aerie
