// libllama as the target room uses it: loading, contexts, batches, and its log turned into reasons.
//
// Inner header. One thread at a time a context; open_model() may be called from several threads.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "target/target.h"

struct llama_model;
struct llama_context;
struct ggml_tensor;

namespace aerie::llama {

struct FreeModel {
  void operator()(llama_model* model) const;
};
struct FreeContext {
  void operator()(llama_context* context) const;
};
using ModelPtr = std::unique_ptr<llama_model, FreeModel>;
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

// Starts the library once and sends its log to ours (debug), keeping error lines for because().
void prepare();
// ": <error line>" of this library, or nothing: the first one since the operation began, which is the cause; told once.
// With several threads in the library the line may be another thread's.
std::string because();

// kInvalid with llama.cpp's reason for a file that it cannot load. Targets and drafts alike.
Result<ModelPtr> open_model(const std::string& path);

struct ContextOptions {
  int tokens = 0;         // of all sequences together
  int sequences = 1;
  int batch = 512;
  int threads = 1;
  std::string kv_type = "f16";
  bool flash_attention = true;
  bool unified = false;   // one cache for all sequences: keeps rows in batch order inside a pass
  // Called for every tensor of a pass (ggml's scheduler callback); null = none.
  bool (*on_tensor)(ggml_tensor* tensor, bool ask, void* user) = nullptr;
  void* user = nullptr;
};
Result<ContextPtr> open_context(llama_model& model, const ContextOptions& options, const std::string& model_path);

// Rows of one pass, kept between passes so that nothing is allocated in the loop.
class Batch {
 public:
  explicit Batch(int rows);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  void clear();
  void add(int32_t token, int position, int sequence, bool output);
  int size() const;
  // Runs the rows and waits for them; kInternal with llama.cpp's reason, kCancelled when stopped (on a CPU within one
  // operation of one layer; the cache then holds a part of the pass and must be cleared).
  Status decode(llama_context& context, const std::stop_token& stop);

 private:
  struct Rows;
  std::unique_ptr<Rows> rows_;
};

// kInvalid names the first id that is no token of this model: llama.cpp would fail the whole pass.
Status check_ids(const llama_model& model, std::span<const int32_t> ids);

int cache_type(const std::string& kv_type);  // a ggml_type, of f32, f16 or q8_0
int thread_count(int wanted);                // 0 = all cores

}  // namespace aerie::llama
