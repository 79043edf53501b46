// The learning rate over a run: linear warm-up, then a cosine down to a share of the peak. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace aerie {

// `progress` in (0, 1]: the share of the run that is done once this step is.
inline double learning_rate(double peak, double warmup_share, double least_share, double progress) {
  if (progress < warmup_share) return peak * progress / warmup_share;
  if (warmup_share >= 1) return peak;
  const double rest = std::min(1.0, (progress - warmup_share) / (1 - warmup_share));
  return peak * (least_share + (1 - least_share) * 0.5 * (1 + std::cos(std::numbers::pi * rest)));
}

}  // namespace aerie
