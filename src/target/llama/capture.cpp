#include "target/llama/capture.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"
#include "target/llama/llama_private.h"

namespace aerie::llama {

// What the scheduler's callback collects: rows of wanted tensors, appended pass after pass.
struct Capturer::Tap {
  int hidden_size = 0;
  std::map<std::string, std::vector<float>*> wanted;  // tensor name -> where its rows go
  bool wrong_type = false;

  // llama.cpp asks first (`ask`), then shows the tensor once it is computed; false then ends the pass.
  static bool on_tensor(ggml_tensor* tensor, bool ask, void* user) { return static_cast<Tap*>(user)->see(*tensor, ask); }

  bool see(ggml_tensor& tensor, bool ask) {
    const bool end = std::strcmp(tensor.name, "result_norm") == 0;
    const auto found = wanted.find(tensor.name);
    if (ask) return end || found != wanted.end();
    if (found != wanted.end()) append(tensor, *found->second);
    return !end;
  }

  void append(ggml_tensor& tensor, std::vector<float>& rows) {
    if (tensor.type != GGML_TYPE_F32 || tensor.ne[0] != hidden_size || !ggml_is_contiguous(&tensor)) {
      wrong_type = true;
      return;
    }
    const size_t before = rows.size();
    rows.resize(before + static_cast<size_t>(ggml_nelements(&tensor)));
    ggml_backend_tensor_get(&tensor, rows.data() + before, 0, ggml_nbytes(&tensor));
  }
};

namespace {

std::string output_name(int layer) { return "l_out-" + std::to_string(layer); }

}  // namespace

Capturer::Capturer(const TargetFacts& facts, const TargetConfig& config)
    : facts_(facts), config_(config), enabled_(static_cast<size_t>(facts.layer_count)), tap_(std::make_unique<Tap>()), batch_(config.batch) {}
Capturer::~Capturer() = default;

Result<std::unique_ptr<Capturer>> Capturer::open(llama_model& model, const TargetFacts& facts, const TargetConfig& config,
                                                 bool by_callback) {
  std::unique_ptr<Capturer> capturer(new Capturer(facts, config));
  capturer->hooks_ = !by_callback && has_layer_input_hooks(facts.architecture);
  capturer->tap_->hidden_size = facts.hidden_size;
  ContextOptions options;
  options.tokens = config.context;
  options.batch = config.batch;
  options.threads = config.threads;
  options.kv_type = config.kv_type;
  options.flash_attention = config.flash_attention;
  options.unified = true;
  options.on_tensor = Tap::on_tensor;
  options.user = capturer->tap_.get();
  TRY(capturer->context_, open_context(model, options, config.model));
  return capturer;
}

Status Capturer::enable(std::span<const int> boundaries) {
  for (int boundary : boundaries)
    if (boundary < 0 || boundary > facts_.layer_count)
      return invalid("boundary " + std::to_string(boundary) + " is not one of 0 to " + std::to_string(facts_.layer_count) + " of " + facts_.name);
  if (!hooks_) return ok_status();
  for (size_t layer = 0; layer < enabled_.size(); ++layer) {
    const bool wanted = std::find(boundaries.begin(), boundaries.end(), static_cast<int>(layer)) != boundaries.end();
    if (wanted == enabled_[layer]) continue;
    llama_set_embeddings_layer_inp(context_.get(), static_cast<uint32_t>(layer), wanted);
    enabled_[layer] = wanted;
  }
  return ok_status();
}

Result<Captured> Capturer::run(std::span<const int32_t> ids, std::span<const int> boundaries, std::stop_token stop) {
  if (ids.empty()) return invalid("a sequence without tokens has no hidden states");
  if (ids.size() > static_cast<size_t>(config_.context))
    return invalid("the sequence has " + std::to_string(ids.size()) + " tokens, more than the context of " + std::to_string(config_.context) +
                   " (target.context)");
  CHECKED(enable(boundaries));
  Captured captured;
  captured.boundaries.assign(boundaries.begin(), boundaries.end());
  captured.row_count = static_cast<int64_t>(ids.size());
  captured.states.resize(boundaries.size());
  const size_t width = static_cast<size_t>(facts_.hidden_size), total = ids.size() * width;
  tap_->wanted = {{output_name(facts_.layer_count - 1), &captured.last}};
  tap_->wrong_type = false;
  captured.last.reserve(total);
  for (size_t i = 0; i < boundaries.size(); ++i) {
    captured.states[i].reserve(total);
    if (!hooks_ && boundaries[i] < facts_.layer_count)
      tap_->wanted[boundaries[i] == 0 ? "embd" : output_name(boundaries[i] - 1)] = &captured.states[i];
  }
  llama_memory_clear(llama_get_memory(context_.get()), true);
  for (size_t begin = 0; begin < ids.size();) {
    if (stop.stop_requested()) return cancelled("reading hidden states was stopped");
    const size_t end = std::min(ids.size(), begin + static_cast<size_t>(config_.batch));
    batch_.clear();
    for (size_t i = begin; i < end; ++i) batch_.add(ids[i], static_cast<int>(i), 0, true);
    CHECKED(batch_.decode(*context_));
    for (size_t i = 0; hooks_ && i < boundaries.size(); ++i) {
      if (boundaries[i] == facts_.layer_count) continue;
      const float* rows = llama_get_embeddings_layer_inp(context_.get(), static_cast<uint32_t>(boundaries[i]));
      if (rows == nullptr) return internal("llama.cpp gave no input of layer " + std::to_string(boundaries[i]) + because());
      captured.states[i].insert(captured.states[i].end(), rows, rows + (end - begin) * width);
    }
    begin = end;
  }
  tap_->wanted.clear();
  for (size_t i = 0; i < boundaries.size(); ++i)
    if (boundaries[i] == facts_.layer_count) captured.states[i] = captured.last;
  if (tap_->wrong_type)
    return invalid("architecture " + facts_.architecture + " computes its layer outputs in a form that is not rows of floats: it cannot be captured");
  for (const auto& states : captured.states)
    if (states.size() != total) return invalid("architecture " + facts_.architecture + " did not show every row of a boundary: it cannot be captured");
  if (captured.last.size() != total)
    return invalid("architecture " + facts_.architecture + " did not show every row of its final state: it cannot be captured");
  return captured;
}

}  // namespace aerie::llama
