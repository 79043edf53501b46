#include "draft/speculate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

// A draw from p with one token's weight removed; `rest` is scratch. When nothing is left (p was all on that token, which
// the caller then never rejects), the token itself comes back.
int32_t draw_without(const std::vector<double>& p, int32_t without, Random& random) {
  std::vector<double> rest = p;
  rest[static_cast<size_t>(without)] = 0;
  double sum = 0;
  for (double r : rest) sum += r;
  if (sum <= 0) return without;
  for (double& r : rest) r /= sum;
  return draw(rest, random.unit());
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

std::vector<double> scatter_to_target(std::span<const double> draft, std::span<const int64_t> d2t_offsets, int vocab_size) {
  std::vector<double> full(static_cast<size_t>(vocab_size), 0.0);
  for (size_t i = 0; i < draft.size(); ++i) full[i + static_cast<size_t>(d2t_offsets[i])] = draft[i];
  return full;
}

Verdict verify_greedy(std::span<const int32_t> drafts, std::span<const int32_t> target_best) {
  Verdict verdict;
  while (static_cast<size_t>(verdict.accepted) < drafts.size() &&
         drafts[static_cast<size_t>(verdict.accepted)] == target_best[static_cast<size_t>(verdict.accepted)]) {
    ++verdict.accepted;
  }
  verdict.next = target_best[static_cast<size_t>(verdict.accepted)];
  return verdict;
}

Verdict verify_one_hot(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& target, Random& random) {
  Verdict verdict;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const std::vector<double>& p = target[i];
    if (random.unit() >= p[static_cast<size_t>(drafts[i])]) {
      verdict.next = draw_without(p, drafts[i], random);
      return verdict;
    }
    ++verdict.accepted;
  }
  verdict.next = draw(target[drafts.size()], random.unit());
  return verdict;
}

Verdict verify_probabilistic(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& draft,
                             const std::vector<std::vector<double>>& target, Random& random) {
  Verdict verdict;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const std::vector<double>& p = target[i];
    const std::vector<double>& q = draft[i];
    const auto d = static_cast<size_t>(drafts[i]);
    if (random.unit() * q[d] < p[d]) {
      ++verdict.accepted;
      continue;
    }
    std::vector<double> rest(p.size());
    double sum = 0;
    for (size_t v = 0; v < p.size(); ++v) sum += rest[v] = std::max(0.0, p[v] - q[v]);
    for (double& r : rest) r /= sum;  // positive: a rejection means p < q somewhere, hence p > q elsewhere
    verdict.next = draw(rest, random.unit());
    return verdict;
  }
  verdict.next = draw(target[drafts.size()], random.unit());
  return verdict;
}

}  // namespace aerie
