// A target: a large language model that tokenises, answers, and shows its hidden states.
//
// Boundary b of an n-layer target is the residual stream entering layer b (0-based); boundary n is the last layer's
// output before the final norm. Only boundaries exist here; other numberings are converted in boundaries.h.
// One thread at a time may call a Target; open several for parallel work. Calls block until done or stopped.
// Fails with kUnavailable or kTimeout when trying again may help, kInvalid when it never will, kCancelled on stop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace aerie {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct TargetFacts {
  std::string engine;         // "llama"
  std::string model_path;
  std::string name;           // general.name, for people
  std::string architecture;   // "llama", "qwen3", ...
  int layer_count = 0;        // n
  int hidden_size = 0;        // H
  int intermediate_size = 0;
  int head_count = 0;
  int kv_head_count = 0;
  int head_size = 0;
  int vocab_size = 0;         // V, rows of the lm_head
  int context_length = 0;     // trained context, in tokens
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000;
  int32_t bos_id = -1, eos_id = -1;  // -1 = none
  bool tied_embeddings = false;      // lm_head is the embedding table
  std::string weight_type;    // "Q4_1", "F16", ... of most weights
  std::string chat_template;  // Jinja source; empty = none
  std::string engine_version;
  // Digest of weights, tokenizer and chat template. Boundaries and norm kind are added by target_fingerprint().
  std::string weights_fingerprint;
};

// {2, n/2, n-3}; kInvalid for n < 7, where they would not be three different boundaries.
Result<std::vector<int>> default_boundaries(int layer_count);

// The fingerprint that binds store, checkpoint, export and bench to one target (design.md section 5).
std::string target_fingerprint(const TargetFacts& facts, std::span<const int> boundaries);

struct GenerateRequest {
  std::vector<int32_t> prompt_ids;
  int max_tokens = 256;
  double temperature = 0;  // 0 = greedy
  double top_p = 1;
  int top_k = 0;           // 0 = all
  uint64_t seed = 0;       // of this request
};

struct Generated {
  std::vector<int32_t> ids;  // the end-of-turn token included when it was produced
  bool stopped = false;      // true: ended by itself; false: max_tokens or the context's end
};

// Hidden states of one sequence of T tokens, in token order.
struct Captured {
  std::vector<int> boundaries;             // as asked
  int64_t row_count = 0;                   // T
  std::vector<std::vector<float>> states;  // a boundary each: [T, H] row-major
  std::vector<float> last;                 // [T, H] boundary n: final state before the final norm
};

// What turns a final state into logits, as floats: logits = lm_head * (rms_norm(last) * norm).
struct TargetHead {
  std::vector<float> norm;        // [H]
  std::vector<float> lm_head;     // [V, H]
  std::vector<float> embeddings;  // [V, H]
};

class Target {
 public:
  virtual ~Target() = default;
  virtual const TargetFacts& facts() const = 0;
  // Token ids of text; special tokens in the text become their ids when parse_special.
  virtual Result<std::vector<int32_t>> tokenize(const std::string& text, bool parse_special) = 0;
  virtual Result<std::string> detokenize(std::span<const int32_t> ids) = 0;
  // The chat template applied by the engine's own Jinja; kInvalid when the model has none.
  virtual Result<std::string> render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) = 0;
  // Answers all requests, many in flight. `done(i, generated)` is called on this thread as each one ends, in any order;
  // a request that cannot be answered (prompt longer than the context) gives its Error there and does not stop the rest.
  // A Status that fails ends everything: it comes from `done` itself, from the engine, or from the stop token.
  // Once `enough` asks for it, no further request is begun: those in flight end, the others are never `done`.
  using OnGenerated = std::function<Status(size_t index, Result<Generated> generated)>;
  virtual Status generate(const std::vector<GenerateRequest>& requests, const OnGenerated& done, std::stop_token stop,
                          std::stop_token enough = {}) = 0;
  // One pass over the ids.
  virtual Result<Captured> capture(std::span<const int32_t> ids, std::span<const int> boundaries, std::stop_token stop) = 0;
  virtual Result<TargetHead> head() = 0;
};

struct TargetConfig {
  std::string kind = "llama";
  std::string model;
  std::string unpack;       // "" | F16 | F32: a copy with weights of this type is run
  int context = 2048;
  int batch = 512;
  int threads = 0;
  int parallel = 8;
  std::string kv_type = "f16";
  bool flash_attention = true;

  void fields(FieldList& v);
};

// Opens what the config names: llama (embedded), later vllm and sglang. An engine that this binary lacks is kInvalid.
// `unpack` writes its copy into `copies_folder`, which must be there, and finds it there the next time.
Result<std::unique_ptr<Target>> open_target(const TargetConfig& config, const std::string& copies_folder = "");

// The facts of a target's file (kind llama), without loading its weights.
Result<TargetFacts> read_target_facts(const std::string& model);

// Version of the llama.cpp in this binary; empty when it has none.
std::string llama_version_text();

}  // namespace aerie
