// Speculation changes nothing but the time: greedy output token by token, sampled output in distribution.
#include "draft/speculate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "draft/drafts_for_tests.h"
#include "draft/sequential.h"

namespace aerie {
namespace {

// A target of arithmetic: logits and three boundary states of a position depend on its last four tokens.
class ToyTarget {
 public:
  ToyTarget(int vocab, int width, uint64_t seed, double sharpness)
      : vocab_(vocab), width_(width), seed_(seed), sharpness_(sharpness) {}

  std::vector<float> logits(std::span<const int32_t> before) const {
    return numbers(before, 1, static_cast<size_t>(vocab_), sharpness_);
  }
  std::vector<float> aux(std::span<const int32_t> before) const {
    return numbers(before, 2, static_cast<size_t>(3 * width_), 1.0);
  }
  int vocab() const { return vocab_; }

 private:
  std::vector<float> numbers(std::span<const int32_t> before, uint64_t what, size_t count, double scale) const {
    uint64_t stream = what;
    for (int32_t id : before.last(std::min<size_t>(4, before.size())))
      stream = stream * 1000003 + static_cast<uint64_t>(id) + 1;
    Random random(seed_, stream);
    return test::random_floats(count, scale, random);
  }
  int vocab_, width_;
  uint64_t seed_;
  double sharpness_;
};

int32_t best_of(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct ToyRun {
  std::vector<int32_t> ids;
  int64_t drafted = 0, accepted = 0;
};

// The protocol of a real engine around the reference decoder: seed, chain, verify, drop speculative slots, refill.
ToyRun speculate_greedily(const ToyTarget& target, const Checkpoint& checkpoint, const std::vector<float>& table,
                          std::vector<int32_t> ids, size_t count, int length) {
  auto draft = SequentialDraft::make(checkpoint, table);
  EXPECT_TRUE(draft.ok());
  ToyRun run;
  size_t true_slots = 0;
  const size_t prompt = ids.size();
  while (ids.size() < prompt + count) {
    for (; true_slots + 1 < ids.size(); ++true_slots) {
      draft->feed(target.aux(std::span(ids).first(true_slots + 1)), ids[true_slots + 1]);
    }
    // The last fed slot is the seed of the chain; its output starts it.
    draft->rollback(static_cast<int>(true_slots) - 1);
    DraftOutput out = draft->feed(target.aux(std::span(ids).first(true_slots)), ids[true_slots]);
    std::vector<int32_t> chain{out.best_token};
    while (static_cast<int>(chain.size()) < length) {
      out = draft->step(out.state, chain.back());
      chain.push_back(out.best_token);
    }
    std::vector<int32_t> best;
    std::vector<int32_t> extended = ids;
    for (size_t i = 0; i <= chain.size(); ++i) {
      best.push_back(best_of(target.logits(extended)));
      if (i < chain.size()) extended.push_back(chain[i]);
    }
    const Verdict verdict = verify_greedy(chain, best);
    run.drafted += length;
    run.accepted += verdict.accepted;
    ids.insert(ids.end(), chain.begin(), chain.begin() + verdict.accepted);
    ids.push_back(verdict.next);
    draft->rollback(static_cast<int>(true_slots));
  }
  ids.resize(prompt + count);
  run.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(prompt), ids.end());
  return run;
}

TEST(Speculation, GreedyOutputIsTheTargetsOwnForEveryDraftLength) {
  DraftShape shape = test::small_shape();
  shape.hidden_size = shape.target_hidden_size = 8;
  shape.intermediate_size = 8;
  shape.head_count = 2, shape.kv_head_count = 1, shape.head_size = 4;
  shape.vocab_size = 6, shape.draft_vocab_size = 5;  // few tokens: a random draft is right often enough
  const std::vector<float> table = test::random_table(shape, 3);
  int64_t tokens = 0, accepted = 0;
  for (int length = 1; length <= 7; ++length) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const ToyTarget target(shape.vocab_size, shape.target_hidden_size, 100 + seed, 1.0);
      const Checkpoint checkpoint = test::random_checkpoint(shape, 50 + seed, 1.0, seed % 2 == 1);
      Random random(seed);
      const std::vector<int32_t> prompt = test::random_ids(5, shape.vocab_size, random);
      std::vector<int32_t> plain = prompt;
      for (int i = 0; i < 160; ++i) plain.push_back(best_of(target.logits(plain)));
      const ToyRun run = speculate_greedily(target, checkpoint, table, prompt, 160, length);
      ASSERT_EQ(run.ids, std::vector<int32_t>(plain.begin() + 5, plain.end()))
          << "length " << length << " seed " << seed;
      tokens += 160;
      accepted += run.accepted;
    }
  }
  EXPECT_GE(tokens, 10000);
  EXPECT_GT(accepted, 1000);  // a draft that is never right would prove nothing
}

// Counts of the first three tokens of 1e5 samples against their exact probabilities.
class SampledCase {
 public:
  static constexpr int kVocab = 7, kDraftVocab = 5, kLength = 2, kSamples = 100000;

  SampledCase(uint64_t seed, SampleRule rule)
      : target_(kVocab, 4, seed, 1.5), draft_(kDraftVocab, 4, seed + 1, 1.0), rule_(rule) {}

  std::vector<double> target(std::span<const int32_t> ids) const { return distribution(target_.logits(ids), rule_); }
  std::vector<double> draft(std::span<const int32_t> ids) const {
    const std::vector<int64_t> offsets{1, 1, 1, 2, 2};  // target ids 1, 2, 3, 5, 6
    return scatter_to_target(distribution(draft_.logits(ids), rule_), offsets, kVocab);
  }

  // One sample of three tokens by the given rule.
  std::vector<int32_t> sample(bool one_hot, Random& random) const {
    std::vector<int32_t> ids{0};
    while (ids.size() < 4) {
      std::vector<int32_t> chain, extended = ids;
      std::vector<std::vector<double>> p{target(ids)}, q;
      for (int i = 0; i < kLength; ++i) {
        q.push_back(draft(extended));
        const auto best = static_cast<int32_t>(std::max_element(q.back().begin(), q.back().end()) - q.back().begin());
        chain.push_back(one_hot ? best : draw(q.back(), random.unit()));
        extended.push_back(chain.back());
        p.push_back(target(extended));
      }
      const Verdict verdict = one_hot ? verify_one_hot(chain, p, random) : verify_probabilistic(chain, q, p, random);
      accepted_ += verdict.accepted;
      ids.insert(ids.end(), chain.begin(), chain.begin() + verdict.accepted);
      ids.push_back(verdict.next);
    }
    return {ids.begin() + 1, ids.begin() + 4};
  }

  std::map<std::vector<int32_t>, double> exact() const {
    std::map<std::vector<int32_t>, double> all;
    for (int32_t a = 0; a < kVocab; ++a) {
      for (int32_t b = 0; b < kVocab; ++b) {
        for (int32_t c = 0; c < kVocab; ++c) {
          const std::vector<int32_t> ids{0, a, b, c};
          const double p = target(std::span(ids).first(1))[static_cast<size_t>(a)] *
                           target(std::span(ids).first(2))[static_cast<size_t>(b)] *
                           target(std::span(ids).first(3))[static_cast<size_t>(c)];
          if (p > 0) all[{a, b, c}] = p;
        }
      }
    }
    return all;
  }

  void expect_exact(bool one_hot) {
    std::map<std::vector<int32_t>, int> counts;
    Random random(99);
    for (int i = 0; i < kSamples; ++i) ++counts[sample(one_hot, random)];
    const auto expected = exact();
    double chi = 0, distance = 0;
    double rest_expected = 0, rest_seen = 0;  // cells too small for chi-square are pooled
    int cells = 0;
    for (const auto& [ids, p] : expected) {
      const double seen = counts.contains(ids) ? counts[ids] : 0.0;
      distance += std::fabs(seen / kSamples - p) / 2;
      if (p * kSamples < 5) {
        rest_expected += p * kSamples, rest_seen += seen;
        continue;
      }
      chi += (seen - p * kSamples) * (seen - p * kSamples) / (p * kSamples);
      ++cells;
    }
    if (rest_expected > 5) chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected, ++cells;
    for (const auto& [ids, count] : counts) EXPECT_TRUE(expected.contains(ids)) << "a token the target never gives";
    // Five deviations of a chi-square with cells - 1 degrees of freedom.
    EXPECT_LT(chi, cells - 1 + 5 * std::sqrt(2.0 * (cells - 1)));
    EXPECT_LT(distance, 0.02);
    EXPECT_GT(accepted_, kSamples / 20);
  }

 private:
  ToyTarget target_, draft_;
  SampleRule rule_;
  mutable int64_t accepted_ = 0;
};

TEST(Speculation, SampledOutputHasTheTargetsDistributionWithAOneHotDraft) {
  SampledCase(11, {1.0, 1.0, 0}).expect_exact(true);
}
TEST(Speculation, SampledOutputHasTheTargetsDistributionWithAProbabilisticDraft) {
  SampledCase(12, {1.0, 1.0, 0}).expect_exact(false);
}
TEST(Speculation, TemperatureAndTopPAreKeptWithAOneHotDraft) { SampledCase(13, {0.7, 0.9, 0}).expect_exact(true); }
TEST(Speculation, TemperatureAndTopPAreKeptWithAProbabilisticDraft) {
  SampledCase(14, {0.7, 0.9, 0}).expect_exact(false);
}
TEST(Speculation, TopKIsKeptWithAProbabilisticDraft) { SampledCase(15, {1.3, 1.0, 4}).expect_exact(false); }

TEST(Choosing, DrawsTheSameTokensWhateverWasDrafted) {
  // The decoder accepts a draft exactly when choose() gives it too, with one number a token: so the stream of chosen
  // tokens cannot depend on the drafts.
  const ToyTarget target(50, 4, 21, 2.0);
  const SampleRule rule{0.9, 0.95, 0};
  Random plain(7), speculative(7), drafts(8);
  std::vector<int32_t> a{1}, b{1};
  for (int i = 0; i < 300; ++i) a.push_back(choose(target.logits(a), rule, plain).id);
  while (b.size() < a.size()) {
    const std::vector<int32_t> chain{a[b.size()], static_cast<int32_t>(drafts.below(50))};  // right, then mostly wrong
    for (size_t i = 0; b.size() < a.size(); ++i) {
      b.push_back(choose(target.logits(b), rule, speculative).id);
      if (i >= chain.size() || chain[i] != b.back()) break;
    }
  }
  EXPECT_EQ(a, b);
}

TEST(Choosing, GapIsBetweenTheTwoBestLogits) {
  Random random(1);
  const std::vector<float> logits{1.0f, 4.0f, -2.0f, 3.5f};
  const Choice greedy = choose(logits, {}, random);
  EXPECT_EQ(greedy.id, 1);
  EXPECT_FLOAT_EQ(greedy.gap, 0.5f);
  const std::vector<float> tie{2.0f, 2.0f};
  EXPECT_EQ(choose(tie, {}, random).id, 0);
  EXPECT_FLOAT_EQ(choose(tie, {}, random).gap, 0.0f);
}

TEST(Choosing, ChooseFollowsDistribution) {
  Random random(3);
  const ToyTarget target(9, 4, 5, 1.5);
  const std::vector<int32_t> ids{1, 2};
  const std::vector<float> logits = target.logits(ids);
  const SampleRule rule{0.8, 0.85, 6};
  const std::vector<double> p = distribution(logits, rule);
  std::vector<int> counts(9, 0);
  for (int i = 0; i < 50000; ++i) ++counts[static_cast<size_t>(choose(logits, rule, random).id)];
  double sum = 0;
  for (size_t i = 0; i < 9; ++i) {
    sum += p[i];
    EXPECT_NEAR(counts[i] / 50000.0, p[i], 0.012);
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0);
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-12);
}

TEST(Choosing, TopPKeepsTheSmallestSetAndMinusInfinityNothing) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.2f), -INFINITY};
  const std::vector<double> p = distribution(logits, {1.0, 0.7, 0});
  EXPECT_NEAR(p[0], 0.625, 1e-6);
  EXPECT_NEAR(p[1], 0.375, 1e-6);
  EXPECT_EQ(p[2], 0);
  EXPECT_EQ(p[3], 0);
  EXPECT_NEAR(distribution(logits, {1.0, 1.0, 0})[2], 0.2, 1e-6);
}

}  // namespace
}  // namespace aerie
