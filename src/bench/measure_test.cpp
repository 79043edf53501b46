#include <gmock/gmock.h>

#include <set>

#include "bench/fake_engine_test.h"

namespace aerie {
namespace {

using bench_test::config;
using bench_test::FakeEngine;
using bench_test::prompts;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kWarmUps = 2;

TEST(Bench, ComputesAcceptanceFromTheRounds) {
  FakeEngine fake;  // two of four accepted in every round
  auto measured = measure(prompts(3), config({4}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok()) << measured.error().what;
  const WayResult& way = *measured->result.way(4);
  EXPECT_EQ(way.answers, 3);
  EXPECT_EQ(way.tokens, 93);
  EXPECT_EQ(way.rounds, 33);  // 10 rounds of three tokens, and a last one of one
  EXPECT_NEAR(way.acceptance_length, 93.0 / 33, 1e-12);
  EXPECT_THAT(way.acceptance, ElementsAre(1, 1, 0, 0))
      << "the last round of an answer, cut by max_tokens, must not count";
  EXPECT_THAT(way.acceptance_given_before, ElementsAre(1, 1, 0)) << "position 4 was never reached and has no such rate";
}

TEST(Bench, TellsUnconditionalFromConditionalAcceptance) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) {
    if (request.draft_length == 0) return;
    answer.drafted = {2, 2, 2, 2, 2};
    answer.accepted = {0, 1, 2, 2, 0};
  };
  auto measured = measure(prompts(1), config({2}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_THAT(measured->result.way(2)->acceptance, ElementsAre(0.75, 0.5));
  EXPECT_THAT(measured->result.way(2)->acceptance_given_before, ElementsAre(0.75, DoubleNear(2.0 / 3, 1e-12)));
}

TEST(Bench, CountsChainsThatEndedEarlyOnlyWhereTheyReached) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) {
    if (request.draft_length == 0) return;
    answer.drafted = {1, 3, 0, 3};
    answer.accepted = {1, 3, 0, 0};
  };
  auto measured = measure(prompts(1), config({3}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_THAT(measured->result.way(3)->acceptance, ElementsAre(1, 1, 1));
}

TEST(Bench, ExpressesCostsInPlainSteps) {
  FakeEngine fake;  // plain 10 ms, a draft 1 ms, a row 0.5 ms
  auto measured = measure(prompts(2), config({4}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  const BenchResult& result = measured->result;
  EXPECT_NEAR(result.plain_step_s, 0.010, 1e-12);
  const WayResult& way = *result.way(4);
  EXPECT_NEAR(way.draft_step_cost.value(), 0.1, 1e-9);
  EXPECT_NEAR(way.verify_cost.value(), 1.2, 1e-9);
  EXPECT_NEAR(way.round_cost.value(), 1.6, 1e-9);
  EXPECT_NEAR(way.speedup_total.value(), (31.0 / 11) / 1.6, 1e-9);
  EXPECT_NEAR(way.speedup->median, (31.0 / 11) / 1.6, 1e-9);
  EXPECT_LT(*way.speedup_whole, *way.speedup_total) << "prefill is not made faster";
  EXPECT_FALSE(result.way(0)->speedup_total.has_value());
}

TEST(Bench, NamesTheFastestDraftLength) {
  FakeEngine fake;  // two tokens are right: drafting 2 wins over 1 (too few) and 4 (in vain)
  auto measured = measure(prompts(3), config({1, 2, 4}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ(measured->result.best_draft_length, 2);
  EXPECT_THAT(measured->result.verdict, HasSubstr("With 2 drafted tokens a round, answers come"));
  EXPECT_THAT(measured->result.verdict, HasSubstr("All 9 answers are the same as the target's own"));
}

TEST(Bench, RotatesTheOrderSoThatADriftHitsAllWaysAlike) {
  FakeEngine fake;
  fake.slowness = [](int call) { return 1 + 0.02 * call; };  // a machine that gets slower and slower
  auto measured = measure(prompts(8), config({1, 2, 4}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  FakeEngine steady;
  auto undisturbed = measure(prompts(8), config({1, 2, 4}), "F16", steady.engine());
  ASSERT_TRUE(undisturbed.ok());
  for (int length : {1, 2, 4}) {
    const double truth = *undisturbed->result.way(length)->speedup_total;
    EXPECT_NEAR(*measured->result.way(length)->speedup_total / truth, 1, 0.02) << "draft length " << length;
  }
  std::set<int> firsts;
  for (size_t prompt = 0; prompt < 4; ++prompt) firsts.insert(fake.calls[kWarmUps + 4 * prompt].draft_length);
  EXPECT_THAT(firsts, ElementsAre(0, 1, 2, 4)) << "each way must come first once";
}

TEST(Bench, MeasuresEveryPromptInEveryWayOnce) {
  FakeEngine fake;
  auto measured = measure(prompts(5), config({1, 3}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  std::map<std::pair<int32_t, int>, int> seen;
  for (size_t i = kWarmUps; i < fake.calls.size(); ++i)
    ++seen[{fake.calls[i].prompt_ids[0], fake.calls[i].draft_length}];
  EXPECT_EQ(seen.size(), 15u);
  for (const auto& [what, times] : seen) EXPECT_EQ(times, 1) << what.first << " " << what.second;
}

TEST(Bench, TakesTheRepeatWithTheMedianTime) {
  FakeEngine fake;
  fake.slowness = [](int call) { return call % 7 == 5 ? 9.0 : 1.0; };  // now and then the machine stands still
  BenchConfig with_repeats = config({2});
  with_repeats.repeats = 3;
  auto measured = measure(prompts(4), with_repeats, "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_NEAR(measured->result.plain_step_s, 0.010, 1e-9);
  EXPECT_EQ(measured->result.way(2)->answers, 4);
  EXPECT_EQ(measured->result.way(2)->equal, 12) << "every repeat is compared";
}

TEST(Bench, GivesEveryWayOfAPromptTheSameSeed) {
  FakeEngine fake;
  BenchConfig sampled = config({1, 2});
  sampled.temperature = 0.7;
  ASSERT_TRUE(measure(prompts(2), sampled, "F16", fake.engine()).ok());
  std::map<int32_t, std::set<uint64_t>> seeds;
  for (const DecodeRequest& call : fake.calls) seeds[call.prompt_ids[0]].insert(call.seed);
  EXPECT_EQ(seeds[1].size(), 1u);
  EXPECT_EQ(seeds[2].size(), 1u);
  EXPECT_NE(*seeds[1].begin(), *seeds[2].begin());
}

void differ_at(size_t position, float gap, const DecodeRequest& request, Decoded& answer) {
  if (request.prompt_ids[0] != 2) return;
  if (answer.ids.size() <= position) return;
  answer.gaps[position] = gap;
  if (request.draft_length == 4) {
    for (size_t i = position; i < answer.ids.size(); ++i) answer.ids[i] += 500;
  }
}

TEST(Bench, ExplainsADifferenceAsATieWhenTheTwoBestLogitsAreCloserThanRounding) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) { differ_at(17, 0.03f, request, answer); };
  auto measured = measure(prompts(3), config(), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  const BenchResult& result = measured->result;
  EXPECT_FALSE(result.failed);
  EXPECT_EQ(result.way(4)->ties, 1);
  EXPECT_EQ(result.way(4)->equal, 2);
  EXPECT_EQ(result.way(2)->equal, 3);
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].position, 17);
  EXPECT_TRUE(result.differences[0].tie);
  EXPECT_THAT(result.verdict, HasSubstr("8 of 9 answers are the same"));
  EXPECT_THAT(result.verdict, HasSubstr("numeric tie"));
}

TEST(Bench, FailsOnADifferenceThatRoundingCannotExplain) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) { differ_at(17, 3.25f, request, answer); };
  auto measured = measure(prompts(3), config(), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  const BenchResult& result = measured->result;
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.way(4)->unexplained, 1);
  const std::string& sentence = result.differences.at(0).sentence;
  EXPECT_THAT(sentence, HasSubstr("Prompt 'p2', position 17"));
  EXPECT_THAT(sentence, HasSubstr("token 2017"));
  EXPECT_THAT(sentence, HasSubstr("token 2517"));
  EXPECT_THAT(sentence, HasSubstr("3.2500"));
  EXPECT_THAT(result.verdict, HasSubstr("not the target's own"));
  EXPECT_THAT(result.verdict, HasSubstr(sentence));
}

TEST(Bench, JudgesByTheLargerOfBothGaps) {
  FakeEngine fake;  // the plain pass was sure, only the other one saw a tie: that is no rounding
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) {
    differ_at(5, request.draft_length == 4 ? 0.001f : 2.0f, request, answer);
  };
  auto measured = measure(prompts(3), config(), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_TRUE(measured->result.failed);
}

TEST(Bench, DoesNotCallATieWhatIsFarLargerThanTheNoiseItSaw) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) { differ_at(5, 0.6f, request, answer); };
  EXPECT_TRUE(measure(prompts(3), config(), "Q4_1", fake.engine())->result.failed) << "the noise was 0.01";
  fake.noise = 0;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) { differ_at(5, 0.01f, request, answer); };
  EXPECT_TRUE(measure(prompts(3), config(), "Q4_1", fake.engine())->result.failed) << "both passes agree to the bit";
}

TEST(Bench, JudgesByTheWeightTypeHoweverLargeTheNoise) {
  FakeEngine fake;
  fake.noise = 0.3;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) { differ_at(5, 0.6f, request, answer); };
  EXPECT_TRUE(measure(prompts(3), config(), "F16", fake.engine())->result.failed);
  EXPECT_FALSE(measure(prompts(3), config(), "Q4_1", fake.engine())->result.failed);
  BenchConfig strict = config();
  strict.tie_gap = 0.5;
  EXPECT_TRUE(measure(prompts(3), strict, "Q4_1", fake.engine())->result.failed);
}

TEST(Bench, FailsWhenOneAnswerEndsWhereTheOtherGoesOn) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) {
    if (request.draft_length == 2) answer.ids.pop_back();
  };
  auto measured = measure(prompts(2), config(), "Q4_1", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_TRUE(measured->result.failed);
  EXPECT_THAT(measured->result.differences.at(0).sentence, HasSubstr("the end of the answer"));
  EXPECT_FALSE(measured->result.differences.at(0).gap.has_value());
}

TEST(Bench, DoesNotJudgeDifferencesOfSampledAnswers) {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) { differ_at(5, 3.0f, request, answer); };
  BenchConfig sampled = config();
  sampled.temperature = 1;
  auto measured = measure(prompts(3), sampled, "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_FALSE(measured->result.failed);
  EXPECT_EQ(measured->result.way(4)->unexplained, 1);
  EXPECT_THAT(measured->result.verdict, HasSubstr("the cause cannot be told"));
}

TEST(Bench, ReportsTheNoiseItSawWhereAnswersAgree) {
  FakeEngine fake;
  fake.noise = 0.125;
  auto measured = measure(prompts(2), config(), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_NEAR(measured->result.noise.value(), 0.125, 1e-6);
}

TEST(Bench, SaysWhyItDoesNotPayWhenCheckingIsTooExpensive) {
  FakeEngine fake;
  fake.row_s = 0.0088;  // compute-bound: five rows cost 4.5 single ones
  fake.draft_step_s = 0.0031;
  auto measured = measure(prompts(3), config({4}), "Q4_1", fake.engine());
  ASSERT_TRUE(measured.ok());
  const BenchResult& result = measured->result;
  EXPECT_THAT(result.verdict, HasSubstr("Speculation does not pay here"));
  EXPECT_THAT(result.cost_sentence, HasSubstr("one guess costs 0.31 of a plain step"));
  EXPECT_THAT(result.cost_sentence, HasSubstr("checking 5.0 tokens at once costs 4.52"));
  EXPECT_THAT(result.cost_sentence, HasSubstr("a round costs 5.76 plain steps and yields 2.82 tokens, so 0.49x"));
  EXPECT_THAT(result.cost_sentence, HasSubstr("Even a draft whose every guess is right"));
}

TEST(Bench, SaysFromWhichAcceptanceOnItWouldPay) {
  FakeEngine fake;
  fake.accepts = 0;
  auto measured = measure(prompts(3), config({4}), "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_THAT(measured->result.cost_sentence,
              HasSubstr("It pays from an acceptance length of 1.60 on; a perfect draft would reach 3.12x"));
  EXPECT_THAT(measured->result.cost_sentence, Not(HasSubstr("could not pay")));
}

TEST(Bench, BeginsNoNewPromptAfterTheTimeLimitButMeasuresThree) {
  FakeEngine fake;
  BenchConfig limited = config();
  limited.time_limit_s = 0.5;  // one prompt takes more
  auto measured = measure(prompts(20), limited, "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ(measured->result.prompts.size(), 3u);
  EXPECT_EQ(measured->result.prompts_asked, 20);
  EXPECT_EQ(measured->result.way(2)->answers, 3);
}

TEST(Bench, PassesOnAFailureWithPromptAndDraftLength) {
  FakeEngine fake;
  BenchEngine engine = fake.engine();
  engine.decode = [&](const DecodeRequest& request, std::stop_token stop) -> Result<Decoded> {
    if (request.prompt_ids[0] == 3 && request.draft_length == 2) return internal("llama_decode gave -3");
    return fake.decode(request, stop);
  };
  auto measured = measure(prompts(4), config(), "F16", engine);
  ASSERT_FALSE(measured.ok());
  EXPECT_THAT(measured.error().what, HasSubstr("prompt 'p3', draft length 2: llama_decode gave -3"));
}

TEST(Bench, EndsWhenAskedToStop) {
  FakeEngine fake;
  std::stop_source stop;
  BenchEngine engine = fake.engine();
  engine.on_answer = [&](const BenchPrompt&, const DecodeRequest&, const Decoded&) { stop.request_stop(); };
  auto measured = measure(prompts(4), config(), "F16", engine, stop.get_token());
  ASSERT_FALSE(measured.ok());
  EXPECT_EQ(measured.error().code, Code::kCancelled);
  EXPECT_EQ(fake.calls.size(), kWarmUps + 1u);
}

TEST(Bench, RefusesSettingsThatCannotBeMeasured) {
  FakeEngine fake;
  EXPECT_THAT(measure({}, config(), "F16", fake.engine()).error().what, HasSubstr("no prompts"));
  EXPECT_THAT(measure(prompts(1), config({}), "F16", fake.engine()).error().what, HasSubstr("draft_lengths is empty"));
  EXPECT_THAT(measure(prompts(1), config({0}), "F16", fake.engine()).error().what, HasSubstr("0 is outside"));
  EXPECT_THAT(measure(prompts(1), config({2}, 1), "F16", fake.engine()).error().what, HasSubstr("max_tokens"));
  EXPECT_TRUE(fake.calls.empty());
}

TEST(Bench, KeepsTheFirstAnswersForTheReport) {
  FakeEngine fake;
  BenchConfig two = config({1, 2});
  two.sample_count = 2;
  auto measured = measure(prompts(5), two, "F16", fake.engine());
  ASSERT_TRUE(measured.ok());
  ASSERT_EQ(measured->kept.size(), 2u);
  EXPECT_EQ(measured->kept[1].prompt, 1u);
  EXPECT_EQ(measured->kept[1].speculative.size(), 2u);
  EXPECT_EQ(measured->kept[1].plain.ids.size(), 31u);
}

TEST(Spread, InterpolatesQuartilesAndIsAbsentForNothing) {
  EXPECT_FALSE(spread_of({}).has_value());
  const Spread one = *spread_of({2.5});
  EXPECT_EQ(one.q1, 2.5);
  EXPECT_EQ(one.q3, 2.5);
  const Spread four = *spread_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(four.q1, 1.75);
  EXPECT_DOUBLE_EQ(four.median, 2.5);
  EXPECT_DOUBLE_EQ(four.q3, 3.25);
  EXPECT_EQ(four.low, 1);
  EXPECT_EQ(four.high, 4);
  EXPECT_EQ(four.count, 4);
}

}  // namespace
}  // namespace aerie
