// llama.cpp's models and contexts as the decoder uses them: one target, at most one draft, and for each way of decoding
// the contexts it needs. Inner header of draft/llama; llama.cpp's own headers stay in the .cpp files.
//
// One thread at a time. Everything returns kInvalid for what a file or request cannot do, kInternal for what llama.cpp
// refuses without a reason of its own; its last error line is in the sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "draft/decoder.h"
#include "target/llama/library.h"

struct common_speculative;

namespace aerie::llama_draft {

// Longest chain; contexts reserve room for one row of logits more than this.
constexpr int kLongestDraft = 16;

struct FreeSpeculative {
  void operator()(common_speculative* speculative) const;
};
using llama::ContextPtr;
using llama::ModelPtr;
using SpeculativePtr = std::unique_ptr<common_speculative, FreeSpeculative>;

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const DecoderConfig& config);

  bool has_draft() const { return draft_ != nullptr; }
  int vocab_size() const { return vocab_size_; }
  int threads() const { return threads_; }
  std::string description() const;
  bool ends(int32_t token) const;

  // Empties the caches of the contexts of one way. The plain context exists from its first use on: a bench that only
  // speculates does not pay for its cache.
  Status start_plain();
  // `draft_length` and `p_min` are of llama.cpp's EAGLE-3 implementation, made anew so that nothing of an earlier
  // prompt stays.
  Status start_speculative(int draft_length, double p_min);

  // Fills the empty caches with rows from position 0 on, in passes of config.batch; kCancelled when stopped between
  // them.
  Status prefill(std::span<const int32_t> rows, const std::stop_token& stop);
  // One pass over rows at positions from `position`; logits are kept for all rows or for none. Waits until it is done.
  Status pass(std::span<const int32_t> rows, int position, bool logits);
  // The draft takes in the features of the last pass: its states for those rows become the true ones.
  Status refresh();
  // Proposes a chain after `last`, the token at `position` that the target has not seen yet.
  Result<std::vector<int32_t>> propose(int32_t last, int position, const std::vector<int32_t>& before, int limit);
  // Of the last pass, `accepted` rows beyond the first stand; both caches forget what lies from `position` on.
  void keep(int accepted, int position);
  // Row `row` of the last pass; valid until the next one.
  Result<std::span<const float>> logits(int row);

 private:
  Engine() = default;
  Status load(const DecoderConfig& config);
  Result<ContextPtr> make_context(llama_model* model, llama_context* other, int outputs) const;

  DecoderConfig config_;
  int threads_ = 1;
  int vocab_size_ = 0;
  ModelPtr target_, draft_;
  ContextPtr plain_, verifying_, drafting_;
  SpeculativePtr speculative_;  // after the contexts: it must go first
  llama_context* active_ = nullptr;
  struct Batch;
  struct FreeBatch {
    void operator()(Batch* batch) const;
  };
  std::unique_ptr<Batch, FreeBatch> batch_;
};

}  // namespace aerie::llama_draft
