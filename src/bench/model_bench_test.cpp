// The whole bench on a real model, with a draft of random weights: it is almost never right, so nothing is faster, but
// rendering, measuring, comparing, recording and showing all happen, and the answers must be the target's own.
#include <gmock/gmock.h>

#include <cstdlib>

#include "bench/bench.h"

#if defined(AERIE_HAVE_DRAFT) && defined(AERIE_HAVE_LLAMA)

#include "draft/drafts_for_tests.h"
#include "draft/export.h"
#include "target/target.h"

namespace aerie {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Prompt> questions() {
  std::vector<Prompt> prompts;
  for (const char* text : {"What is the capital of France?", "Name three colours."}) {
    prompts.push_back({"q" + std::to_string(prompts.size() + 1), {{"user", text}}});
  }
  return prompts;
}

class ModelBench : public testing::Test {
 protected:
  void SetUp() override {
    const char* model = std::getenv("AERIE_MODEL");
    if (!model || !real_file_system().info(model).ok()) GTEST_SKIP() << "AERIE_MODEL names no file (scripts/bootstrap)";
    TargetConfig config;
    config.model = model;
    config.context = 64;
    config.threads = 1;
    auto target = open_target(config);
    ASSERT_TRUE(target.ok()) << target.error().what;
    const TargetFacts& facts = (*target)->facts();
    DraftShape shape;
    shape.hidden_size = shape.target_hidden_size = facts.hidden_size;
    shape.intermediate_size = 64;
    shape.head_count = facts.head_count;
    shape.kv_head_count = facts.kv_head_count;
    shape.head_size = facts.head_size;
    shape.vocab_size = facts.vocab_size;
    shape.draft_vocab_size = 512;
    shape.context_length = facts.context_length;
    shape.rope_theta = facts.rope_theta;
    Checkpoint checkpoint = test::random_checkpoint(shape, 3);
    checkpoint.target_layer_count = facts.layer_count;
    checkpoint.boundaries = *default_boundaries(facts.layer_count);
    subject_.target = model;
    subject_.draft = scratch_.path() + "/draft.gguf";
    checkpoint_ = std::move(checkpoint);
    export_for(target_fingerprint(facts, checkpoint_.boundaries));
    config_.max_tokens = 12;
    config_.draft_lengths = {2, 5};  // three rows go through the engine one by one, six as a block
    config_.context = 128;
    config_.threads = 1;
  }

  Result<BenchResult> run(std::stop_token stop = {}) {
    auto folder = RunFolder::open(scratch_.path() + "/run", {"bench"}, "");
    if (!folder) return std::move(folder).error();
    return bench(subject_, questions(), config_, **folder, stop);
  }

  void export_for(const std::string& fingerprint) {
    checkpoint_.target_fingerprint = fingerprint;
    auto exported = export_gguf(real_file_system(), checkpoint_, subject_.target, subject_.draft,
                                {.overwrite = true, .type = WeightType::kF16});
    ASSERT_TRUE(exported.ok()) << exported.error().what;
  }

  test::ScratchFolder scratch_{"model_bench"};
  Checkpoint checkpoint_;
  BenchSubject subject_;
  BenchConfig config_;
};

TEST_F(ModelBench, MeasuresAndRecordsARealModelWhoseAnswersStayTheSame) {
  auto result = run();
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_FALSE(result->failed) << result->verdict;
  EXPECT_EQ(result->subject.label, result->weight_type) << "the folder is named by the weights when nobody names it";
  EXPECT_EQ(result->prompts.size(), 2u);
  const WayResult* way = result->way(5);
  ASSERT_NE(way, nullptr);
  EXPECT_EQ(way->answers, 2);
  EXPECT_GE(way->acceptance_length, 1);
  EXPECT_LT(way->acceptance_length, 1.5) << "random weights cannot guess";
  EXPECT_GT(way->verify_cost.value(), 0);
  EXPECT_GT(way->draft_step_cost.value(), 0);
  EXPECT_THAT(result->verdict, HasSubstr("does not pay"));
  EXPECT_TRUE(result->noise.has_value());
  RecordProperty("noise", std::to_string(result->noise.value_or(-1)) + " " + equality_sentence(*result) + " " +
                              result->cost_sentence);

  ASSERT_EQ(result->samples.size(), 2u);
  EXPECT_EQ(result->samples[0].prompt, "What is the capital of France?");
  std::string text;
  for (const AnswerPiece& piece : result->samples[0].pieces) text += piece.text;
  if (result->samples[0].equal) {
    EXPECT_EQ(text, result->samples[0].plain_text);
  }
  EXPECT_THAT(text, Not(::testing::IsEmpty()));

  auto recorded =
      read_results(real_file_system(), scratch_.path() + "/run/bench/" + result->subject.label + "/results.json");
  ASSERT_TRUE(recorded.ok()) << recorded.error().what;
  EXPECT_EQ(results_json(*recorded), results_json(*result));
}

TEST_F(ModelBench, RefusesADraftOfAnotherTargetBeforeMeasuring) {
  export_for("another");
  auto result = run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kInvalid);
  EXPECT_THAT(result.error().what, HasSubstr("with fingerprint another"));
}

TEST_F(ModelBench, MeasuresADraftOfOtherWeightsWhenAskedAndOneOfNoNamedTarget) {
  config_.max_tokens = 4;
  config_.draft_lengths = {2};
  export_for("another");
  config_.other_weights = true;
  auto other = run();
  ASSERT_TRUE(other.ok()) << other.error().what;
  EXPECT_EQ(other->subject.target_fingerprint, "");
  config_.other_weights = false;
  export_for("");
  auto unbound = run();
  ASSERT_TRUE(unbound.ok()) << unbound.error().what;
  EXPECT_EQ(unbound->subject.target_fingerprint, "");
}

TEST_F(ModelBench, SaysWhenNoPromptFits) {
  config_.context = 16;
  auto result = run();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().what, HasSubstr("none of 2 prompts fits bench.context = 16"));
}

TEST_F(ModelBench, EndsWhenAskedToStop) {
  std::stop_source stop;
  stop.request_stop();
  auto result = run(stop.get_token());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace aerie

#endif
