#include "target/llama/capture.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"
#include "target/llama/llama_private.h"

namespace aerie::llama {

// What the scheduler's callback collects: rows of wanted tensors, appended ubatch after ubatch.
struct Capturer::Tap {
  struct Place {
    std::vector<float>* rows = nullptr;
    bool instead = false;  // takes the place of the rows that the same ubatch gave under another name before
  };
  int hidden_size = 0;
  std::map<std::string, Place> wanted;  // by tensor name
  bool wrong_type = false;

  // What enters layer 0 is the token embedding, or, where the architecture scales it, the scaled one, computed after it.
  void want_embeddings(std::vector<float>& rows) {
    wanted["embd"] = {&rows, false};
    for (const char* scaled : {"inp_scaled", "inp_embd_scaled"}) wanted[scaled] = {&rows, true};
  }

  // llama.cpp asks first (`ask`), then shows the tensor once it is computed; false then ends the pass.
  static bool on_tensor(ggml_tensor* tensor, bool ask, void* user) { return static_cast<Tap*>(user)->see(*tensor, ask); }

  bool see(ggml_tensor& tensor, bool ask) {
    const bool end = std::strcmp(tensor.name, "result_norm") == 0;
    const auto found = wanted.find(tensor.name);
    if (ask) return end || found != wanted.end();
    if (found != wanted.end()) append(tensor, found->second);
    return !end;
  }

  void append(ggml_tensor& tensor, const Place& place) {
    if (tensor.type != GGML_TYPE_F32 || tensor.ne[0] != hidden_size || !ggml_is_contiguous(&tensor)) {
      wrong_type = true;
      return;
    }
    std::vector<float>& rows = *place.rows;
    const auto count = static_cast<size_t>(ggml_nelements(&tensor));
    const size_t before = rows.size() - (place.instead ? std::min(count, rows.size()) : 0);
    rows.resize(before + count);
    ggml_backend_tensor_get(&tensor, rows.data() + before, 0, ggml_nbytes(&tensor));
  }
};

namespace {

std::string output_name(int layer) { return "l_out-" + std::to_string(layer); }

}  // namespace

Capturer::Capturer(llama_model& model, const TargetFacts& facts, const TargetConfig& config)
    : model_(model), facts_(facts), config_(config), enabled_(static_cast<size_t>(facts.layer_count)), tap_(std::make_unique<Tap>()), batch_(config.batch) {}
Capturer::~Capturer() = default;

Result<std::unique_ptr<Capturer>> Capturer::open(llama_model& model, const TargetFacts& facts, const TargetConfig& config,
                                                 bool by_callback) {
  std::unique_ptr<Capturer> capturer(new Capturer(model, facts, config));
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

Status Capturer::check(std::span<const int32_t> ids, std::span<const int> boundaries) const {
  if (ids.empty()) return invalid("a sequence without tokens has no hidden states");
  if (ids.size() > static_cast<size_t>(config_.context))
    return invalid("the sequence has " + std::to_string(ids.size()) + " tokens, more than the context of " + std::to_string(config_.context) +
                   " (target.context)");
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (boundaries[i] < 0 || boundaries[i] > facts_.layer_count)
      return invalid("boundary " + std::to_string(boundaries[i]) + " is not one of 0 to " + std::to_string(facts_.layer_count) + " of " + facts_.name);
    if (std::find(boundaries.begin(), boundaries.begin() + static_cast<std::ptrdiff_t>(i), boundaries[i]) != boundaries.begin() + static_cast<std::ptrdiff_t>(i))
      return invalid("boundary " + std::to_string(boundaries[i]) + " is asked for twice");
  }
  return check_ids(model_, ids);
}

// Switches the hooks of exactly these layers on; a change makes llama.cpp plan its memory anew.
void Capturer::enable_hooks(std::span<const int> boundaries) {
  for (size_t layer = 0; layer < enabled_.size(); ++layer) {
    const bool wanted = std::find(boundaries.begin(), boundaries.end(), static_cast<int>(layer)) != boundaries.end();
    if (wanted == enabled_[layer]) continue;
    llama_set_embeddings_layer_inp(context_.get(), static_cast<uint32_t>(layer), wanted);
    enabled_[layer] = wanted;
  }
}

// Makes room for the rows and tells the callback which tensors to collect.
void Capturer::want(Captured& captured) {
  const size_t total = static_cast<size_t>(captured.row_count) * static_cast<size_t>(facts_.hidden_size);
  tap_->wanted = {{output_name(facts_.layer_count - 1), {&captured.last}}};
  tap_->wrong_type = false;
  captured.last.reserve(total);
  captured.states.resize(captured.boundaries.size());
  for (size_t i = 0; i < captured.states.size(); ++i) {
    captured.states[i].reserve(total);
    const int boundary = captured.boundaries[i];
    if (hooks_ || boundary == facts_.layer_count) continue;
    if (boundary == 0)
      tap_->want_embeddings(captured.states[i]);
    else
      tap_->wanted[output_name(boundary - 1)] = {&captured.states[i]};
  }
}

// Rows of the pass just done that hooks gave.
Status Capturer::read_hooks(Captured& captured, size_t rows) {
  for (size_t i = 0; i < captured.states.size(); ++i) {
    const int boundary = captured.boundaries[i];
    if (boundary == facts_.layer_count) continue;
    const float* values = llama_get_embeddings_layer_inp(context_.get(), static_cast<uint32_t>(boundary));
    if (values == nullptr) return internal("llama.cpp gave no input of layer " + std::to_string(boundary) + because());
    captured.states[i].insert(captured.states[i].end(), values, values + rows * static_cast<size_t>(facts_.hidden_size));
  }
  return ok_status();
}

// The last boundary is the final state; whatever the architecture did not show is refused, never guessed.
Status Capturer::complete(Captured& captured) const {
  const size_t total = static_cast<size_t>(captured.row_count) * static_cast<size_t>(facts_.hidden_size);
  const std::string cannot = ": hidden states of architecture " + facts_.architecture + " cannot be captured with llama.cpp " + llama_version();
  if (tap_->wrong_type) return invalid("a layer's output is not rows of " + std::to_string(facts_.hidden_size) + " floats" + cannot);
  if (captured.last.size() != total) return invalid("the last layer's output was not shown for every row" + cannot);
  for (size_t i = 0; i < captured.states.size(); ++i) {
    std::vector<float>& states = captured.states[i];
    if (captured.boundaries[i] == facts_.layer_count) states = captured.last;
    if (states.size() != total)
      return invalid("boundary " + std::to_string(captured.boundaries[i]) + " was not shown for every row" + cannot);
  }
  return ok_status();
}

Result<Captured> Capturer::run(std::span<const int32_t> ids, std::span<const int> boundaries, const std::stop_token& stop) {
  CHECKED(check(ids, boundaries));
  if (hooks_) enable_hooks(boundaries);
  Captured captured;
  captured.boundaries.assign(boundaries.begin(), boundaries.end());
  captured.row_count = static_cast<int64_t>(ids.size());
  want(captured);
  llama_memory_clear(llama_get_memory(context_.get()), true);
  for (size_t begin = 0; begin < ids.size();) {
    if (stop.stop_requested()) return cancelled("reading hidden states was stopped");
    const size_t end = std::min(ids.size(), begin + static_cast<size_t>(config_.batch));
    batch_.clear();
    for (size_t i = begin; i < end; ++i) batch_.add(ids[i], static_cast<int>(i), 0, true);
    CHECKED(batch_.decode(*context_, stop));
    if (hooks_) {
      CHECKED(read_hooks(captured, end - begin));
    }
    begin = end;
  }
  tap_->wanted.clear();
  CHECKED(complete(captured));
  return captured;
}

}  // namespace aerie::llama
