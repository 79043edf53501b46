// A small target made of arithmetic, for tests: no model file, the same numbers in every run, microseconds a token.
//
// What is true to life: it is causal; boundary 0 is the embedding row; every layer adds to the residual stream; the
// final state is pre-norm; head() turns it into the logits by which generate() chooses, bit for bit; a prompt longer
// than the context is refused alone; requests end in another order than they were given (last first).
// What is lossy: "attention" is a decaying mean over the rows before; text is bytes (ids 0-255) and two special tokens,
// "<|start|>" (256) and "<|end|>" (257, ends a turn), and so an answer is seldom valid UTF-8; there is no batch,
// no KV cache, no rounding between prefill and decode. The chat template is fixed and not Jinja; detokenize() writes
// special tokens as text.
//
// Faults are wishes of a test: each makes capture() or generate() wrong in one way that real engines were seen to be.
// One thread at a time, as for every Target. The counters may be read from any thread.
#pragma once

#include <atomic>

#include "target/target.h"

namespace aerie {

struct FakeFaults {
  int from_capture = 0;             // wrong captures begin with this call (1 = the first); 0 = at once
  bool swap_rows = false;           // rows 2k and 2k+1 of everything captured change places
  bool boundary_off_by_one = false; // boundary b gives what enters layer b + 1 (the last one stays)
  bool last_one_layer_early = false;  // the final state misses the last layer
  bool postnorm_last = false;       // the final state with the final norm applied
  bool nan = false;                 // one NaN in the middle of the first captured boundary
  bool drop_last_row = false;       // one row less than tokens, everywhere
  bool leaking_context = false;     // rows depend on the sequence captured before
  bool reversed_history = false;    // renders only the last user message with an answer: no prefix property
  int fail_capture_at = 0;          // this call of capture() fails (1 = the first), 0 = none
  int fail_generate_at = 0;         // generate() fails as a whole when it would give this answer (counted over calls)
  Code fail_code = Code::kUnavailable;
  double delay_s = 0;               // every capture and every answer takes this longer; ends early when stopped
};

struct FakeOptions {
  int layer_count = 8;
  int hidden_size = 32;
  int context_length = 512;
  uint64_t seed = 1;   // other weights, another fingerprint
  bool tied_embeddings = false;
  bool chat_template = true;  // false: render() refuses, as for a base model
  FakeFaults faults = {};
};

class FakeTarget : public Target {
 public:
  static constexpr int32_t kStart = 256, kEnd = 257;
  static constexpr int kVocab = 258;

  explicit FakeTarget(FakeOptions options = {});
  ~FakeTarget() override;

  const TargetFacts& facts() const override;
  Result<std::vector<int32_t>> tokenize(const std::string& text, bool parse_special) override;
  Result<std::string> detokenize(std::span<const int32_t> ids) override;
  Result<std::string> render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) override;
  Status generate(const std::vector<GenerateRequest>& requests, const OnGenerated& done, std::stop_token stop,
                  std::stop_token enough = {}) override;
  Result<Captured> capture(std::span<const int32_t> ids, std::span<const int> boundaries, std::stop_token stop) override;
  Result<TargetHead> head() override;

  FakeFaults& faults();       // may be changed between calls
  int captures() const { return captures_; }        // calls of capture() so far
  int answers() const { return answers_; }          // requests answered so far
  size_t largest_window() const { return largest_window_; }  // most requests given to one generate()

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::atomic<int> captures_ = 0;
  std::atomic<int> answers_ = 0;
  std::atomic<size_t> largest_window_ = 0;
};

}  // namespace aerie
