#include "train/vocabulary.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace aerie {
namespace {

constexpr double kWantedCoverage = 0.995;
constexpr double kMuchUnseen = 0.02;
constexpr int64_t kPiece = 256, kLeast = 512, kLeastThen = 4096, kMost = 8192;

int64_t chosen_size(const std::vector<int64_t>& counts, const std::vector<int32_t>& by_count, int64_t total) {
  const auto vocab = static_cast<int64_t>(counts.size());
  int64_t size = 0, covered = 0;
  while (size < vocab && static_cast<double>(covered) < kWantedCoverage * static_cast<double>(total)) {
    covered += counts[static_cast<size_t>(by_count[static_cast<size_t>(size)])];
    ++size;
  }
  size = (size + kPiece - 1) / kPiece * kPiece;
  const auto once = static_cast<double>(std::count(counts.begin(), counts.end(), 1));
  const double unseen = total == 0 ? 0 : once / static_cast<double>(total);
  if (unseen > kMuchUnseen) size = std::max(size, kLeastThen);
  return std::min(std::clamp(size, kLeast, kMost), vocab);
}

}  // namespace

std::vector<int64_t> DraftVocabulary::d2t() const {
  std::vector<int64_t> offsets(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) offsets[i] = targets[i] - static_cast<int64_t>(i);
  return offsets;
}

std::vector<uint8_t> DraftVocabulary::t2d(int64_t vocab_size) const {
  std::vector<uint8_t> inside(static_cast<size_t>(vocab_size), 0);
  for (const int32_t id : targets) inside[static_cast<size_t>(id)] = 1;
  return inside;
}

std::optional<double> coverage_of(const std::vector<int64_t>& counts, const std::vector<int32_t>& targets) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (total == 0) return std::nullopt;
  int64_t inside = 0;
  for (const int32_t id : targets) inside += counts[static_cast<size_t>(id)];
  return static_cast<double>(inside) / static_cast<double>(total);
}

Result<DraftVocabulary> choose_vocabulary(const std::vector<int64_t>& counts, int64_t size) {
  const auto vocab = static_cast<int64_t>(counts.size());
  if (size < 0 || size > vocab) {
    return invalid(
        fmt::format("draft_vocab is {}, but the target has {} tokens; use 0 to let the data decide", size, vocab));
  }
  DraftVocabulary chosen;
  chosen.counted = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  chosen.distinct = std::count_if(counts.begin(), counts.end(), [](int64_t n) { return n > 0; });
  // Most frequent first; equals, and all that never occurred, by ascending id: padding needs no code of its own.
  std::vector<int32_t> by_count(counts.size());
  std::iota(by_count.begin(), by_count.end(), 0);
  std::stable_sort(by_count.begin(), by_count.end(), [&](int32_t a, int32_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  if (size == 0) size = chosen_size(counts, by_count, chosen.counted);
  chosen.targets.assign(by_count.begin(), by_count.begin() + size);
  std::sort(chosen.targets.begin(), chosen.targets.end());
  chosen.coverage = coverage_of(counts, chosen.targets);
  return chosen;
}

}  // namespace aerie
