#include "target/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace aerie {
namespace {

struct Kept {
  int32_t id;
  double probability;
};

struct TopTwo {
  int32_t best = 0;
  float first = -std::numeric_limits<float>::infinity();
  float second = -std::numeric_limits<float>::infinity();
};

TopTwo top_two(std::span<const float> logits) {
  TopTwo top;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > top.first) {
      top.second = top.first;
      top.first = logits[i];
      top.best = static_cast<int32_t>(i);
    } else if (logits[i] > top.second) {
      top.second = logits[i];
    }
  }
  return top;
}

bool before(const Kept& a, const Kept& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

// Brings the best `count` to the front, in order.
void order_front(std::vector<Kept>& kept, size_t count) {
  count = std::min(count, kept.size());
  std::partial_sort(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count), kept.end(), before);
}

void scale_to_one(std::vector<Kept>& kept) {
  double sum = 0;
  for (const Kept& k : kept) sum += k.probability;
  for (Kept& k : kept) k.probability /= sum;
}

// The smallest prefix of the ordered tokens that reaches top_p. The sorted front grows until it is enough: a vocabulary
// has tens of thousands of tokens and the nucleus a few dozen.
void keep_nucleus(std::vector<Kept>& kept, double top_p) {
  for (size_t front = 64;; front *= 4) {
    order_front(kept, front);
    double sum = 0;
    const size_t known = std::min(front, kept.size());
    for (size_t i = 0; i < known; ++i) {
      sum += kept[i].probability;
      if (sum >= top_p) {
        kept.resize(i + 1);
        return;
      }
    }
    if (known == kept.size()) return;
  }
}

// Tokens that remain after the rule, with probabilities that sum to one. Order is by id unless a cut ordered them.
std::vector<Kept> kept_tokens(std::span<const float> logits, const SampleRule& rule, float highest) {
  std::vector<Kept> kept;
  kept.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isinf(logits[i]) && logits[i] < 0) continue;
    kept.push_back({static_cast<int32_t>(i), std::exp((double{logits[i]} - highest) / rule.temperature)});
  }
  if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < kept.size()) {
    order_front(kept, static_cast<size_t>(rule.top_k));
    kept.resize(static_cast<size_t>(rule.top_k));
  }
  scale_to_one(kept);
  if (rule.top_p < 1) {
    keep_nucleus(kept, rule.top_p);
    scale_to_one(kept);
  }
  return kept;
}

}  // namespace

std::vector<double> distribution(std::span<const float> logits, const SampleRule& rule) {
  std::vector<double> p(logits.size(), 0.0);
  const TopTwo top = top_two(logits);
  if (rule.temperature <= 0) {
    p[static_cast<size_t>(top.best)] = 1;
    return p;
  }
  for (const Kept& k : kept_tokens(logits, rule, top.first)) p[static_cast<size_t>(k.id)] = k.probability;
  return p;
}

int32_t draw(std::span<const double> probabilities, double unit) {
  double sum = 0;
  int32_t last = 0;  // rounding may leave the sum below `unit`: then the last possible token is meant
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    sum += probabilities[i];
    last = static_cast<int32_t>(i);
    if (unit < sum) return last;
  }
  return last;
}

Choice choose(std::span<const float> logits, const SampleRule& rule, Random& random) {
  const TopTwo top = top_two(logits);
  Choice choice{top.best, top.first - top.second};
  if (rule.temperature <= 0) return choice;
  const std::vector<Kept> kept = kept_tokens(logits, rule, top.first);
  const double unit = random.unit();
  double sum = 0;
  for (const Kept& k : kept) {
    sum += k.probability;
    choice.id = k.id;
    if (unit < sum) break;
  }
  return choice;
}

}  // namespace aerie
