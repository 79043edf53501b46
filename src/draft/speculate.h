// Choosing tokens, and accepting drafted ones, so that the output is distributed exactly as the target's own.
//
// Pure functions over rows of logits or probabilities of the target's whole vocabulary; the only state is the caller's
// Random. The decoder uses choose(): the target chooses, and a drafted token that equals the choice is accepted, which
// keeps sampled output identical to plain decoding with the same seed. The rejection rules accept more often when
// sampling (Leviathan et al. 2023; "one-hot" is the rule for a draft that always proposes its best token).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "target/choose.h"

namespace aerie {

// Draft probabilities [Vd] as probabilities over the target's vocabulary: target id = i + d2t[i], zero elsewhere.
std::vector<double> scatter_to_target(std::span<const double> draft, std::span<const int64_t> d2t_offsets,
                                      int vocab_size);

struct Verdict {
  int accepted = 0;  // leading drafts that stand
  int32_t next = 0;  // the token after them: correction, or bonus when all stand
};

// In all three, `target` holds drafts.size() + 1 rows: row i speaks about the token that draft i proposes.

// Accepts while the draft is the target's best token.
Verdict verify_greedy(std::span<const int32_t> drafts, std::span<const int32_t> target_best);
// Drafts that a deterministic draft proposed: accepted with probability p(d); the correction comes from p without d.
Verdict verify_one_hot(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& target, Random& random);
// Drafts drawn from q (over the target's vocabulary, one row a draft): accepted with min(1, p/q); the correction comes
// from max(0, p - q), renormalised.
Verdict verify_probabilistic(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& draft,
                             const std::vector<std::vector<double>>& target, Random& random);

}  // namespace aerie
