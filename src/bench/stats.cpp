// Spreads, look-ups and tolerances: the arithmetic of bench.h that needs no engine.
#include <algorithm>
#include <cmath>

#include "bench/bench.h"

namespace aerie {
namespace {

double quantile(const std::vector<double>& sorted, double at) {
  const double place = at * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = place - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

bool is_quantised(const std::string& type) { return type != "F32" && type != "F16" && type != "BF16"; }

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  Spread spread;
  spread.low = values.front();
  spread.q1 = quantile(values, 0.25);
  spread.median = quantile(values, 0.5);
  spread.q3 = quantile(values, 0.75);
  spread.high = values.back();
  spread.count = static_cast<int64_t>(values.size());
  return spread;
}

const WayResult* BenchResult::way(int draft_length) const {
  for (const WayResult& one : ways) {
    if (one.draft_length == draft_length) return &one;
  }
  return nullptr;
}

const WayResult* BenchResult::best() const { return best_draft_length ? way(*best_draft_length) : nullptr; }

double tie_tolerance(const std::string& weight_type, const std::string& kv_type) {
  // Logits of real models span about 10 to 30. Activations meet quantised weights re-quantised to 8 bits, and meet F16
  // weights as F16, with other rounding flips for every batch shape; docs/performance.md has the noise that was
  // measured.
  double tolerance = 0.02;
  if (weight_type == "F16") tolerance = 0.1;
  if (weight_type == "BF16") tolerance = 0.5;
  if (weight_type == "Q8_0" || weight_type == "Q6_K")
    tolerance = 0.5;
  else if (is_quantised(weight_type))
    tolerance = 1.0;
  if (kv_type != "f32" && kv_type != "f16") tolerance = std::max(tolerance, 0.5);
  return tolerance;
}

}  // namespace aerie
