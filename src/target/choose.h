// Choosing the next token from a row of logits: greedy, or by temperature, top-k and top-p with a seeded draw.
//
// Pure functions; the only state is the caller's Random. Used by generation and by decoding with a draft, so that both
// choose alike.
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

}  // namespace aerie
