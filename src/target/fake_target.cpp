#include "target/fake_target.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <thread>

#include "base/hash.h"
#include "base/random.h"

namespace aerie {
namespace {

constexpr std::string_view kStartText = "<|start|>", kEndText = "<|end|>";
constexpr float kDecay = 0.8f;

std::vector<float> normals(size_t count, float scale, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(random.normal());
  return values;
}

// Sleeps, and wakes within 5 ms of a stop.
void wait_s(double seconds, const std::stop_token& stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(seconds < 0.005 ? 1 : 5));
}

void swap_neighbours(std::vector<float>& rows, size_t width) {
  for (size_t row = 0; (row + 2) * width <= rows.size(); row += 2)
    std::swap_ranges(rows.begin() + static_cast<ptrdiff_t>(row * width),
                     rows.begin() + static_cast<ptrdiff_t>((row + 1) * width),
                     rows.begin() + static_cast<ptrdiff_t>((row + 1) * width));
}

}  // namespace

struct FakeTarget::State {
  FakeOptions options;
  TargetFacts facts;
  TargetHead head;
  std::vector<std::vector<float>> layers;       // [H, 2H] each: of the row itself, of the mean before it
  std::vector<std::vector<float>> left_over;    // means of the sequence captured last, for leaking_context

  explicit State(FakeOptions given) : options(std::move(given)) {
    const auto hidden = static_cast<size_t>(options.hidden_size);
    Random random(options.seed, 0xfa4e);
    head.embeddings = normals(kVocab * hidden, 1, random);
    head.lm_head = options.tied_embeddings ? head.embeddings : normals(kVocab * hidden, 1, random);
    for (size_t i = 0; i < hidden; ++i) head.lm_head[kEnd * hidden + i] *= 1.2f;  // so that answers end now and then
    if (options.tied_embeddings) head.embeddings = head.lm_head;
    for (size_t i = 0; i < hidden; ++i) head.norm.push_back(0.3f + 2.5f * static_cast<float>(random.unit()));
    for (int layer = 0; layer < options.layer_count; ++layer)
      layers.push_back(normals(hidden * 2 * hidden, 1.f / std::sqrt(static_cast<float>(hidden)), random));
    describe();
  }

  void describe() {
    facts.engine = "fake";
    facts.name = "fake-" + std::to_string(options.seed);
    facts.model_path = "(none)";
    facts.architecture = "fake";
    facts.layer_count = options.layer_count;
    facts.hidden_size = options.hidden_size;
    facts.intermediate_size = 2 * options.hidden_size;
    facts.head_count = 2;
    facts.kv_head_count = 1;
    facts.head_size = options.hidden_size / 2;
    facts.vocab_size = kVocab;
    facts.context_length = options.context_length;
    facts.eos_id = kEnd;
    facts.tied_embeddings = options.tied_embeddings;
    facts.weight_type = "F32";
    facts.chat_template = options.chat_template ? "(fixed: <|start|>role newline content <|end|> newline)" : "";
    facts.engine_version = "1";
    facts.weights_fingerprint =
        Sha256().add("fake " + std::to_string(options.seed) + " " + std::to_string(options.layer_count) + " " +
                     std::to_string(options.hidden_size) + (options.tied_embeddings ? " tied" : "")).hex();
  }
};

namespace {

// One sequence, a token at a time. boundary(b) is the residual stream entering layer b of the newest token.
class Walk {
 public:
  Walk(const TargetHead& head, const std::vector<std::vector<float>>& layers, size_t hidden)
      : head_(head), layers_(layers), hidden_(hidden),
        boundaries_(layers.size() + 1, std::vector<float>(hidden)), means_(layers.size(), std::vector<float>(hidden)) {}

  void step(int32_t token) {
    const float* row = head_.embeddings.data() + static_cast<size_t>(token) * hidden_;
    std::copy(row, row + hidden_, boundaries_[0].begin());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::vector<float>& in = boundaries_[layer];
      std::vector<float>& mean = means_[layer];
      const float* weight = layers_[layer].data();
      for (size_t i = 0; i < hidden_; ++i) {
        float sum = 0;
        for (size_t j = 0; j < hidden_; ++j) sum += weight[j] * in[j] + weight[hidden_ + j] * mean[j];
        weight += 2 * hidden_;
        boundaries_[layer + 1][i] = in[i] + std::tanh(sum);
      }
      for (size_t i = 0; i < hidden_; ++i) mean[i] = kDecay * mean[i] + (1 - kDecay) * in[i];
    }
  }

  const std::vector<float>& boundary(size_t at) const { return boundaries_[at]; }
  std::vector<std::vector<float>>& means() { return means_; }

  std::vector<float> normed(double eps) const {
    const std::vector<float>& last = boundaries_.back();
    double squares = 0;
    for (float value : last) squares += static_cast<double>(value) * value;
    const auto scale = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(hidden_) + eps));
    std::vector<float> out(hidden_);
    for (size_t i = 0; i < hidden_; ++i) out[i] = last[i] * scale * head_.norm[i];
    return out;
  }

  std::vector<float> logits(double eps) const {
    const std::vector<float> state = normed(eps);
    std::vector<float> out(head_.lm_head.size() / hidden_);
    for (size_t token = 0; token < out.size(); ++token) {
      float sum = 0;
      for (size_t i = 0; i < hidden_; ++i) sum += head_.lm_head[token * hidden_ + i] * state[i];
      out[token] = sum;
    }
    return out;
  }

 private:
  const TargetHead& head_;
  const std::vector<std::vector<float>>& layers_;
  size_t hidden_;
  std::vector<std::vector<float>> boundaries_;
  std::vector<std::vector<float>> means_;
};

// Temperature, then top-k, then top-p, as engines do it.
int32_t choose(const std::vector<float>& logits, const GenerateRequest& request, Random& random) {
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  auto of = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return of(a) > of(b); });
  if (request.temperature <= 0) return order[0];
  if (request.top_k > 0 && static_cast<size_t>(request.top_k) < order.size())
    order.resize(static_cast<size_t>(request.top_k));
  std::vector<double> weights;
  double total = 0;
  for (int32_t id : order) {
    weights.push_back(std::exp((of(id) - of(order[0])) / request.temperature));
    total += weights.back();
  }
  size_t kept = 0;
  double mass = 0;
  while (kept < weights.size() && (kept == 0 || mass < request.top_p * total)) mass += weights[kept++];
  double left = random.unit() * mass;
  for (size_t i = 0; i < kept; ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order[kept - 1];
}

Status check_ids(std::span<const int32_t> ids, int context) {
  if (ids.empty()) return invalid("the fake target was given no tokens");
  if (ids.size() > static_cast<size_t>(context))
    return invalid("a sequence of " + std::to_string(ids.size()) + " tokens is longer than the context of " +
                   std::to_string(context));
  for (int32_t id : ids)
    if (id < 0 || id >= FakeTarget::kVocab)
      return invalid("token id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(FakeTarget::kVocab));
  return ok_status();
}

}  // namespace

FakeTarget::FakeTarget(FakeOptions options) : state_(std::make_unique<State>(std::move(options))) {}
FakeTarget::~FakeTarget() = default;

const TargetFacts& FakeTarget::facts() const { return state_->facts; }
FakeFaults& FakeTarget::faults() { return state_->options.faults; }
Result<TargetHead> FakeTarget::head() { return state_->head; }

Result<std::vector<int32_t>> FakeTarget::tokenize(const std::string& text, bool parse_special) {
  std::vector<int32_t> ids;
  std::string_view rest = text;
  while (!rest.empty()) {
    if (parse_special && rest.starts_with(kStartText)) {
      ids.push_back(kStart);
      rest.remove_prefix(kStartText.size());
    } else if (parse_special && rest.starts_with(kEndText)) {
      ids.push_back(kEnd);
      rest.remove_prefix(kEndText.size());
    } else {
      ids.push_back(static_cast<unsigned char>(rest[0]));
      rest.remove_prefix(1);
    }
  }
  return ids;
}

Result<std::string> FakeTarget::detokenize(std::span<const int32_t> ids) {
  std::string text;
  for (int32_t id : ids) {
    if (id == kStart) text += kStartText;
    else if (id == kEnd) text += kEndText;
    else text += static_cast<char>(id);
  }
  return text;
}

Result<std::string> FakeTarget::render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) {
  if (!state_->options.chat_template) return invalid("the model " + facts().name + " has no chat template");
  std::string text;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (faults().reversed_history && !add_generation_prompt && i + 2 < messages.size()) continue;
    text += std::string(kStartText) + messages[i].role + "\n" + messages[i].content + std::string(kEndText) + "\n";
  }
  if (add_generation_prompt) text += std::string(kStartText) + "assistant\n";
  return text;
}

Status FakeTarget::generate(const std::vector<GenerateRequest>& requests, const OnGenerated& done, std::stop_token stop,
                            std::stop_token enough) {
  largest_window_ = std::max(largest_window_.load(), requests.size());
  for (size_t left = requests.size(); left > 0 && !enough.stop_requested(); --left) {
    const GenerateRequest& request = requests[left - 1];
    if (faults().delay_s > 0) wait_s(faults().delay_s, stop);
    if (stop.stop_requested()) return cancelled("generating was stopped");
    if (++answers_ == faults().fail_generate_at)
      return Error{faults().fail_code, "the fake target fails at answer " + std::to_string(answers_)};
    if (Status fine = check_ids(request.prompt_ids, state_->options.context_length); !fine) {
      CHECKED(done(left - 1, std::move(fine).error()));
      continue;
    }
    Walk walk(state_->head, state_->layers, static_cast<size_t>(state_->options.hidden_size));
    for (int32_t id : request.prompt_ids) walk.step(id);
    Random random(request.seed);
    Generated generated;
    const size_t room = static_cast<size_t>(state_->options.context_length) - request.prompt_ids.size();
    while (!generated.stopped && generated.ids.size() < std::min(room, static_cast<size_t>(request.max_tokens))) {
      generated.ids.push_back(choose(walk.logits(facts().rms_norm_eps), request, random));
      generated.stopped = generated.ids.back() == kEnd;
      walk.step(generated.ids.back());
    }
    CHECKED(done(left - 1, std::move(generated)));
  }
  return ok_status();
}

Result<Captured> FakeTarget::capture(std::span<const int32_t> ids, std::span<const int> boundaries,
                                     std::stop_token stop) {
  const int call = ++captures_;
  FakeFaults faults = state_->options.faults;
  if (call < faults.from_capture) faults = {.delay_s = faults.delay_s};
  if (faults.delay_s > 0) wait_s(faults.delay_s, stop);
  if (stop.stop_requested()) return cancelled("capturing was stopped");
  if (call == faults.fail_capture_at)
    return Error{faults.fail_code, "the fake target fails at capture " + std::to_string(call)};
  CHECKED(check_ids(ids, state_->options.context_length));
  const int layers = state_->options.layer_count;
  for (int boundary : boundaries)
    if (boundary < 0 || boundary > layers)
      return invalid("boundary " + std::to_string(boundary) + " is outside 0.." + std::to_string(layers));

  const auto hidden = static_cast<size_t>(state_->options.hidden_size);
  Walk walk(state_->head, state_->layers, hidden);
  if (faults.leaking_context && !state_->left_over.empty()) walk.means() = state_->left_over;
  Captured out;
  out.boundaries.assign(boundaries.begin(), boundaries.end());
  out.states.resize(boundaries.size());
  for (size_t row = 0; row < ids.size(); ++row) {
    walk.step(ids[row]);
    if (faults.drop_last_row && row + 1 == ids.size()) break;
    ++out.row_count;
    for (size_t i = 0; i < boundaries.size(); ++i) {
      const int at = std::min(boundaries[i] + (faults.boundary_off_by_one ? 1 : 0), layers);
      const std::vector<float>& from = walk.boundary(static_cast<size_t>(at));
      out.states[i].insert(out.states[i].end(), from.begin(), from.end());
    }
    const std::vector<float> last = faults.postnorm_last ? walk.normed(facts().rms_norm_eps)
                                    : walk.boundary(static_cast<size_t>(layers - (faults.last_one_layer_early ? 1 : 0)));
    out.last.insert(out.last.end(), last.begin(), last.end());
  }
  state_->left_over = walk.means();
  if (faults.swap_rows) {
    for (std::vector<float>& rows : out.states) swap_neighbours(rows, hidden);
    swap_neighbours(out.last, hidden);
  }
  if (faults.nan && !out.states.empty() && !out.states[0].empty()) out.states[0][out.states[0].size() / 2] = NAN;
  return out;
}

}  // namespace aerie
