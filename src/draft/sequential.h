// A draft decoded one token at a time, by the letter of the reference (EAGLE-3, arXiv 2503.01840) and with plain loops.
//
// This is the yardstick, not the fast path: it shares no code with the trainer and none with llama.cpp, and both are
// compared with it (training-time test equals sequential decoding; exported files give the trainer's logits; llama.cpp
// drafts the same chain). Sums are taken in double. An object is a cache and the weights; one thread at a time.
//
// Slot j of a sequence takes the target's features at token j and the embedding of token j+1, at RoPE position j, and
// its logits speak about token j+2.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "train/draft_shape.h"

namespace aerie {

struct DraftOutput {
  std::vector<float> state;   // [H] what the next step of a chain takes in place of fused features
  std::vector<float> logits;  // [Vd]
  int32_t best_draft = 0;     // index of the largest logit, the lowest on ties
  int32_t best_token = 0;     // the same as an id of the target
};

class SequentialDraft {
 public:
  // `embeddings` [V, Ht] is borrowed and must outlive the object. kInvalid when tensors or sizes do not fit the shape.
  static Result<SequentialDraft> make(const Checkpoint& checkpoint, std::span<const float> embeddings);
  SequentialDraft(SequentialDraft&&) noexcept;
  SequentialDraft& operator=(SequentialDraft&&) noexcept;
  ~SequentialDraft();

  // Appends a slot with true features (aux: the boundaries' states side by side, [3 * Ht]).
  DraftOutput feed(std::span<const float> aux, int32_t next_token);
  // Appends a slot that continues from a state of an earlier output.
  DraftOutput step(std::span<const float> state, int32_t next_token);

  int length() const;         // slots in the cache
  void rollback(int length);  // forgets every slot from `length` on
  // Keys then values of every slot, [length, 2 * kv_heads * head_size]: for comparing caches.
  std::vector<float> cache() const;

 private:
  struct State;
  explicit SequentialDraft(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace aerie
