// The draft under training: K steps of training-time test (TTT), forward and backward, over a batch of whole sequences.
//
// Slot j of a sequence x_0..x_{T-1} at step k has the token x_{j+1+k}, RoPE position j+k, and the teacher's row j+1+k,
// and predicts x_{j+2+k}. Step 0 starts from fc(aux row j); later steps from the slot's own output of the step before.
// A query sees the step-0 keys of slots <= j and its own keys of steps 1..k. Formulas and conventions:
// docs/training.md. Attention memory grows with tokens, never with their square. Sequences never see each other.
//
// A TttModel owns weights, gradients and optimizer moments; it is used by one thread at a time and computes with
// `threads` threads. Bad shapes are kInvalid; a loss or gradient that is not finite is kInvalid and says where. No
// torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "store/store.h"
#include "tensor/tensor.h"
#include "train/draft_shape.h"

namespace aerie {

// Which entry of the loss mask gates slot j at step k (the teacher's row there is t = j+1+k).
enum class LossMask {
  kPredicted,  // m[t+1]: the token that the draft predicts (default)
  kInput,      // m[t]: the step's input token (speculators, ModelOpt)
  kUnshifted,  // m[t-1] (EAGLE, SpecForge)
};
enum class LossNormaliser {
  kSupervised,    // rows that have a loss at this step
  kAllPositions,  // all token positions of the batch, padding of shorter sequences included by their number (SpecForge)
};
enum class LossKind {
  kKl,                // sum p (log p - log q): 0 when the draft equals the teacher
  kSoftCrossEntropy,  // -sum p log q: the same gradient
};

struct TttOptions {
  int steps = 7;
  LossMask mask = LossMask::kPredicted;
  LossNormaliser normaliser = LossNormaliser::kSupervised;
  LossKind loss = LossKind::kKl;
  double step_decay = 0.8;              // step k weighs step_decay^k
  bool drop_out_of_vocabulary = false;  // rows whose teacher argmax over all V is outside Vd get no loss (SpecForge)
  bool freeze_head = false;             // lm_head keeps its values and gets no gradient
  bool last_is_prenorm = true;          // false: stored last states already went through the target's final norm
  int threads = 0;                      // 0 = all cores
};

// One sequence of T tokens; spans are borrowed for the call.
struct TttSequence {
  std::span<const int32_t> ids;             // [T]
  std::span<const uint8_t> loss_mask;       // [T], 1 = token produced by the target
  std::span<const float> aux;               // [T, 3 Ht], boundaries side by side
  std::span<const float> last;              // [T, Ht]
  std::span<const int32_t> teacher_argmax;  // [T] over all V; empty = computed when needed
};

struct TttWants {
  bool gradients = false;
  bool accuracy = false;
  bool logits = false;  // of every slot and step; without it, work for slots that can have no loss is skipped
};

struct TttOutputs {
  double loss = 0;                         // sum over steps of step_decay^k * step_loss[k]
  std::vector<double> step_loss;           // [K], normalised, before the step's weight
  std::vector<int64_t> loss_rows;          // [K] rows that had a loss
  std::vector<int64_t> correct;            // [K] rows where the draft's best token is the teacher's best over all V
  std::vector<int64_t> total;              // [K] rows counted by `correct` (out-of-vocabulary ones included)
  std::vector<int64_t> chain_correct;      // [K] slots right at this and every earlier step
  std::vector<int64_t> chain_total;        // [K] slots supervised at this and every earlier step
  std::vector<std::vector<float>> logits;  // [K] of [sum of T, Vd]: one row a token position, sequence after sequence
};

// 1 + sum over k of chain_correct[k] / chain_total[k], up to the first step that no slot reached;
// absent when no slot was supervised.
std::optional<double> acceptance_estimate(const TttOutputs& outputs);

struct AdamWSettings {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;  // of matrices; norms are not decayed
  double clip_norm = 0;     // 0 = no clipping
};

class TttModel {
 public:
  // Takes weights and d2t from the checkpoint. `head` is the target's (norm, lm_head, embeddings or tied) and is
  // shared.
  static Result<std::unique_ptr<TttModel>> create(const Checkpoint& checkpoint, std::shared_ptr<const StoredHead> head,
                                                  const TttOptions& options);
  ~TttModel();

  // One batch. With wants.gradients the gradients replace those of the call before.
  Result<TttOutputs> run(std::span<const TttSequence> batch, const TttWants& wants);

  // The target's best token over all V for each row of last states [rows, Ht]; ties go to the lower id.
  std::vector<int32_t> teacher_argmax(std::span<const float> last) const;

  // Clips the gradients by their global norm and makes one AdamW step (bias-corrected, `step` counts from 1).
  // Returns the norm before clipping; kInvalid when it is not finite, and then nothing was changed.
  Result<double> update(const AdamWSettings& settings, int64_t step);

  // What fc reads has columns of very different size (a few reach thousands). With their rms given, fc learns as if
  // each column had rms 1: gradients and steps are scaled, weights keep their meaning. kInvalid unless 3 Ht positive
  // values.
  Status set_feature_rms(std::span<const float> rms);

  // Names and shapes as in a checkpoint (trainable ones: d2t is left out).
  std::vector<Tensor> weights() const;
  std::vector<Tensor> gradients() const;
  // "exp_avg.<name>", "exp_avg_sq.<name>", and "feature_scale" when features have one.
  std::vector<Tensor> optimizer_state() const;
  Status restore_optimizer(const std::vector<Tensor>& state);

  const DraftShape& shape() const;
  const TttOptions& options() const;

  struct State;

 private:
  explicit TttModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace aerie
