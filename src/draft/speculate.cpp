#include "draft/speculate.h"

#include <algorithm>

namespace aerie {
namespace {

// A draw from p with one token's weight removed. When nothing is left (p was all on that token, which
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

std::vector<double> scatter_to_target(std::span<const double> draft, std::span<const int64_t> d2t_offsets,
                                      int vocab_size) {
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

Verdict verify_one_hot(std::span<const int32_t> drafts, const std::vector<std::vector<double>>& target,
                       Random& random) {
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
