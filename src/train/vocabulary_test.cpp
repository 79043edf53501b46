#include "train/vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace aerie {
namespace {

using Ids = std::vector<int32_t>;

TEST(Vocabulary, KeepsTheMostFrequentTokensInAscendingOrder) {
  const auto chosen = choose_vocabulary({1, 0, 9, 5, 0, 7}, 3);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->targets, (Ids{2, 3, 5}));
  EXPECT_EQ(chosen->counted, 22);
  EXPECT_EQ(chosen->distinct, 4);
  EXPECT_DOUBLE_EQ(*chosen->coverage, 21.0 / 22.0);
}

TEST(Vocabulary, GivesTiesToTheLowerId) { EXPECT_EQ(choose_vocabulary({0, 4, 4, 4, 9}, 3)->targets, (Ids{1, 2, 4})); }

TEST(Vocabulary, FillsWithTheLowestUnusedIdsWhenFewerTokensWereSeen) {
  EXPECT_EQ(choose_vocabulary({0, 0, 0, 0, 0, 3, 0, 1}, 5)->targets, (Ids{0, 1, 2, 5, 7}));
}

TEST(Vocabulary, MapsByOffsetsAndBack) {
  std::vector<int64_t> counts(1000, 0);
  for (size_t i = 0; i < counts.size(); i += 7) counts[i] = static_cast<int64_t>(1000 - i);
  const auto chosen = choose_vocabulary(counts, 100);
  ASSERT_TRUE(chosen.ok());
  const std::vector<int64_t> d2t = chosen->d2t();
  const std::vector<uint8_t> t2d = chosen->t2d(1000);
  std::set<int64_t> seen;
  for (size_t i = 0; i < d2t.size(); ++i) {
    const int64_t target = static_cast<int64_t>(i) + d2t[i];
    EXPECT_EQ(target, chosen->targets[i]);
    EXPECT_EQ(t2d[static_cast<size_t>(target)], 1);
    if (i > 0) {
      EXPECT_GE(d2t[i], d2t[i - 1]);
    }
    seen.insert(target);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(std::accumulate(t2d.begin(), t2d.end(), 0), 100);
}

TEST(Vocabulary, MayBeTheWholeVocabulary) {
  const auto chosen = choose_vocabulary({0, 2, 0}, 3);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->d2t(), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_DOUBLE_EQ(*chosen->coverage, 1);
}

TEST(Vocabulary, ChoosesASizeThatCoversNearlyEverything) {
  // 2,000 tokens in falling frequency; the last ones are rare.
  std::vector<int64_t> counts(40000, 0);
  for (size_t i = 0; i < 2000; ++i) counts[i * 11] = static_cast<int64_t>(100000 / (i + 1));
  const auto chosen = choose_vocabulary(counts, 0);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->targets.size() % 256, 0u);
  EXPECT_GE(*chosen->coverage, 0.995);
  EXPECT_LE(chosen->targets.size(), 2048u);
}

TEST(Vocabulary, NeverChoosesMoreThanTheTargetHasOrThanTrainingCanBear) {
  EXPECT_EQ(choose_vocabulary(std::vector<int64_t>(300, 9), 0)->targets.size(), 300u);
  EXPECT_EQ(choose_vocabulary(std::vector<int64_t>(50000, 9), 0)->targets.size(), 8192u);
  EXPECT_EQ(choose_vocabulary(std::vector<int64_t>(50000, 0), 0)->targets.size(), 512u);
}

TEST(Vocabulary, TakesMoreThanWasSeenWhenManyTokensWereSeenOnce) {
  std::vector<int64_t> counts(40000, 0);
  std::fill(counts.begin(), counts.begin() + 1000, 100);
  std::fill(counts.begin() + 1000, counts.begin() + 1500, 1);  // 0.5 % once
  EXPECT_EQ(choose_vocabulary(counts, 0)->targets.size(), 1024u);
  std::fill(counts.begin() + 1000, counts.begin() + 4000, 1);  // 2.9 %
  EXPECT_EQ(choose_vocabulary(counts, 0)->targets.size(), 4096u);
}

TEST(Vocabulary, DoesNotSayWhatItCoversOfNothing) {
  EXPECT_EQ(choose_vocabulary({0, 0, 0}, 2)->coverage, std::nullopt);
  EXPECT_EQ(coverage_of({0, 0, 0}, {0, 1}), std::nullopt);
  EXPECT_EQ(coverage_of({0, 0, 4}, {0, 1}), 0);
}

TEST(Vocabulary, RefusesASizeAboveTheTargets) {
  const auto chosen = choose_vocabulary({1, 2, 3}, 4);
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.error().code, Code::kInvalid);
  EXPECT_NE(chosen.error().what.find("4"), std::string::npos);
}

}  // namespace
}  // namespace aerie
