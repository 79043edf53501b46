// Hidden states of one sequence: layer inputs by llama.cpp's own hooks where the architecture has them, by the scheduler's
// callback elsewhere; the final state before the norm always by callback, with the pass ended before the lm_head.
//
// What was measured and read about it (llama.cpp 0c1e57098): the callback gives rows in batch order only with one unified
// cache; the last layer keeps only rows flagged as output; a pass that is ended at result_norm leaves the context usable.
// Inner header. One thread; borrows the model.
#pragma once

#include <memory>

#include "target/llama/library.h"
#include "target/target.h"

namespace aerie::llama {

class Capturer {
 public:
  // `by_callback` captures all boundaries by the callback even where hooks exist (tests compare the two ways).
  static Result<std::unique_ptr<Capturer>> open(llama_model& model, const TargetFacts& facts, const TargetConfig& config,
                                                bool by_callback = false);
  ~Capturer();
  Result<Captured> run(std::span<const int32_t> ids, std::span<const int> boundaries, const std::stop_token& stop);

 private:
  struct Tap;
  Capturer(llama_model& model, const TargetFacts& facts, const TargetConfig& config);
  Status check(std::span<const int32_t> ids, std::span<const int> boundaries) const;
  void enable_hooks(std::span<const int> boundaries);
  void want(Captured& captured);
  Status read_hooks(Captured& captured, size_t rows);
  Status complete(Captured& captured) const;

  llama_model& model_;
  TargetFacts facts_;
  TargetConfig config_;
  bool hooks_ = false;
  std::vector<bool> enabled_;  // by layer
  std::unique_ptr<Tap> tap_;   // before the context, which calls it
  ContextPtr context_;
  Batch batch_;
};

}  // namespace aerie::llama
