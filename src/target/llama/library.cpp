#include "target/llama/library.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "llama.h"
#include "log.h"  // libllama-common's log, silenced here

namespace aerie::llama {
namespace {

std::mutex mutex;
std::string first_error;  // since forget_errors(): the cause; those after it are of callers that noticed

void forget_errors() {
  const std::lock_guard<std::mutex> lock(mutex);
  first_error.clear();
}

// "llama_model_load: error loading model: ..." without the function's name.
std::string without_function(const std::string& line) {
  const size_t colon = line.find(": ");
  const bool name = colon != std::string::npos && line.find(' ') == colon + 1;
  return name ? line.substr(colon + 2) : line;
}

void on_log(ggml_log_level level, const char* text, void*) {
  const std::string line(trim(text));
  if (line.empty() || line == ".") return;
  if (level == GGML_LOG_LEVEL_ERROR) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (first_error.empty()) first_error = without_function(line);
  }
  if (level != GGML_LOG_LEVEL_CONT) log(Level::kDebug, "llama_cpp", line);
}

}  // namespace

void FreeModel::operator()(llama_model* model) const { llama_model_free(model); }
void FreeContext::operator()(llama_context* context) const { llama_free(context); }

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] { llama_backend_init(); });
  llama_log_set(on_log, nullptr);
  common_log_set_verbosity_thold(LOG_LEVEL_ERROR);
  forget_errors();
}

std::string because() {
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string line = std::exchange(first_error, "");
  return line.empty() ? "" : ": " + line;
}

Result<ModelPtr> open_model(const std::string& path) {
  prepare();
  ModelPtr model(llama_model_load_from_file(path.c_str(), llama_model_default_params()));
  if (!model) return invalid("llama.cpp " + std::string(llama_version()) + " cannot load " + path + because());
  return model;
}

Result<ContextPtr> open_context(llama_model& model, const ContextOptions& options, const std::string& model_path) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.tokens);
  params.n_batch = static_cast<uint32_t>(options.batch);
  params.n_ubatch = static_cast<uint32_t>(std::min(options.batch, 512));
  params.n_seq_max = static_cast<uint32_t>(options.sequences);
  params.n_threads = params.n_threads_batch = thread_count(options.threads);
  params.type_k = params.type_v = static_cast<ggml_type>(cache_type(options.kv_type));
  params.flash_attn_type = options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.kv_unified = options.unified;
  params.no_perf = true;
  params.cb_eval = options.on_tensor;
  params.cb_eval_user_data = options.user;
  forget_errors();
  ContextPtr context(llama_init_from_model(&model, params));
  if (!context)
    return invalid("llama.cpp cannot make a context of " + std::to_string(options.tokens) + " tokens for " + model_path + because() +
                   "; a smaller target.context or target.parallel needs less memory");
  return context;
}

struct Batch::Rows {
  llama_batch batch;
};

Batch::Batch(int rows) : rows_(std::make_unique<Rows>(Rows{llama_batch_init(rows, 0, 1)})) {}
Batch::~Batch() { llama_batch_free(rows_->batch); }
void Batch::clear() { rows_->batch.n_tokens = 0; }
int Batch::size() const { return rows_->batch.n_tokens; }

void Batch::add(int32_t token, int position, int sequence, bool output) {
  llama_batch& batch = rows_->batch;
  const int row = batch.n_tokens++;
  batch.token[row] = token;
  batch.pos[row] = position;
  batch.n_seq_id[row] = 1;
  batch.seq_id[row][0] = sequence;
  batch.logits[row] = output ? 1 : 0;
}

Status Batch::decode(llama_context& context, const std::stop_token& stop) {
  forget_errors();
  std::stop_token asked = stop;
  llama_set_abort_callback(&context, [](void* token) { return static_cast<std::stop_token*>(token)->stop_requested(); }, &asked);
  const int code = llama_decode(&context, rows_->batch);
  llama_synchronize(&context);
  llama_set_abort_callback(&context, nullptr, nullptr);
  if (code == 2 && stop.stop_requested()) return cancelled("a pass through the model was stopped");
  if (code != 0)
    return internal("llama.cpp failed over " + std::to_string(size()) + " rows (code " + std::to_string(code) +
                    (code == 1 ? ", no room in the cache" : "") + ")" + because());
  return ok_status();
}

Status check_ids(const llama_model& model, std::span<const int32_t> ids) {
  const int32_t size = llama_vocab_n_tokens(llama_model_get_vocab(&model));
  for (int32_t id : ids)
    if (id < 0 || id >= size)
      return invalid("token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(size) + ": it was made by another tokenizer");
  return ok_status();
}

int cache_type(const std::string& kv_type) {
  if (kv_type == "f32") return GGML_TYPE_F32;
  if (kv_type == "q8_0") return GGML_TYPE_Q8_0;
  return GGML_TYPE_F16;
}

int thread_count(int wanted) { return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace aerie::llama
