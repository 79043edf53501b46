// A start that already knows something: the linear part of a draft, solved in closed form on a few thousand tokens.
//
// With u_t the target's last state at position t divided by its rms, two ridge regressions are made:
//   1. F_j -> u_j                               becomes fc: the three captured states say where the target stands;
//   2. [rms(embed(x_{j+1})) | rms(s_j)] -> u_{j+1} - s_j, s_j = fc(F_j): one step of the target, as one step of the
//   draft.
// The second map, cut to the rank that values can carry, becomes v_proj and o_proj; q_proj and k_proj start as one
// random projection, so that every slot attends mostly to itself. Since lm_head and norm are the target's, the draft's
// logits are then those of a linear guess at the target's next state; the norm is scaled so that the loss on held-out
// samples is lowest (a guess is less sure than the target). The same map serves every TTT step.
//
// Deterministic on one machine. Uses a store reader and the calling thread's share of cores. Private to train.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "store/store.h"
#include "train/train.h"
#include "train/ttt.h"

namespace aerie {

struct FitReport {
  bool fitted = false;    // false: there were too few rows, or no solution; the draft is as it was
  int64_t rows = 0;       // tokens that the regressions saw
  double norm_scale = 1;  // factor on the last norm
  std::optional<double> loss, acceptance;  // on held-out samples, all TTT steps; absent when nothing there tells
};

// Changes the draft's fc, attention and last norm. `chosen` are the training samples.
Result<FitReport> fit_draft(Checkpoint& draft, const StoreReader& store, const std::vector<size_t>& chosen,
                            std::shared_ptr<const StoredHead> head, const TttOptions& options,
                            const TrainConfig& config, std::stop_token stop);

// rms of each column that fc reads, over some thousand tokens of the chosen samples; never below a hundredth of their
// mean.
Result<std::vector<float>> feature_rms(Checkpoint& draft, const StoreReader& store, const std::vector<size_t>& chosen,
                                       std::shared_ptr<const StoredHead> head, const TttOptions& options,
                                       const TrainConfig& config, std::stop_token stop);

}  // namespace aerie
