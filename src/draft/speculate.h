// Choosing tokens, and accepting drafted ones, so that the output is distributed exactly as the target's own.
//
// Pure functions over rows of logits or probabilities of the target's whole vocabulary; the only state is the caller's
// Random. The decoder uses choose(): the target chooses, and a drafted token that equals the choice is accepted, which
// keeps sampled output identical to plain decoding with the same seed. The rejection rules accept more often when sampling
// (Leviathan et al. 2023; "one-hot" is the rule for a draft that always proposes its best token).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace aerie {

struct SampleRule {
  double temperature = 0;  // 0 = greedy: the best logit, the lowest id on ties
  double top_p = 1;        // keep the smallest set of best tokens whose probability reaches this
  int top_k = 0;           // keep this many best tokens first; 0 = all
};

// Probabilities after temperature, top-k and top-p, [V]; greedy gives a single 1. A logit of -infinity has probability 0.
std::vector<double> distribution(std::span<const float> logits, const SampleRule& rule);

// The index drawn by a uniform number in [0, 1).
int32_t draw(std::span<const double> probabilities, double unit);

struct Choice {
  int32_t id = 0;
  float gap = 0;  // best minus second-best logit, before the rule; +infinity when there is no second
};
// One token by the rule; takes exactly one number from `random` when temperature > 0, and none when greedy.
Choice choose(std::span<const float> logits, const SampleRule& rule, Random& random);

// Draft probabilities [Vd] as probabilities over the target's vocabulary: target id = i + d2t[i], zero elsewhere.
std::vector<double> scatter_to_target(std::span<const double> draft, std::span<const int64_t> d2t_offsets, int vocab_size);

struct Verdict {
  int accepted = 0;   // leading drafts that stand
  int32_t next = 0;   // the token after them: correction, or bonus when all stand
};

// In all three, `target` holds drafts.size() + 1 rows: row i speaks about the token that draft i proposes.

// Accepts while the draft is the target's best token.
Verdict verify_greedy(std::span<const int32_t> drafts, std::span<const int32_t> target_best);
// Drafts that a deterministic draft proposed: accepted with probability p(d); the correction comes from p without d.
Verdict verify_one_hot(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& target, Random& random);
// Drafts drawn from q (over the target's vocabulary, one row a draft): accepted with min(1, p/q); the correction comes from
// max(0, p - q), renormalised.
Verdict verify_probabilistic(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& draft,
                             const std::vector<std::vector<double>>& target, Random& random);

}  // namespace aerie
