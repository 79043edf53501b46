// The embedded engine on the real small model (AERIE_MODEL). One thread: ggml's threads spin.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "target/llama/capture.h"
#include "target/target.h"

namespace aerie {
namespace {

TargetConfig small_config() {
  TargetConfig config;
  config.model = std::getenv("AERIE_MODEL") ? std::getenv("AERIE_MODEL") : "";
  config.context = 256;
  config.batch = 64;
  config.threads = 1;
  config.parallel = 3;
  return config;
}

class LlamaTarget : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(small_config().model)) GTEST_SKIP() << "AERIE_MODEL names no model: scripts/bootstrap --env prints it";
    auto opened = open_target(small_config());
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    target_ = *std::move(opened);
  }
  std::vector<int32_t> ids(const std::string& text) {
    auto made = target_->tokenize(text, true);
    EXPECT_TRUE(made.ok());
    return made ? *made : std::vector<int32_t>();
  }
  std::unique_ptr<Target> target_;
};

TEST_F(LlamaTarget, KnowsItsFacts) {
  const TargetFacts& facts = target_->facts();
  EXPECT_EQ(facts.architecture, "llama");
  EXPECT_EQ(facts.layer_count, 30);
  EXPECT_EQ(facts.hidden_size, 576);
  EXPECT_EQ(facts.vocab_size, 49152);
  EXPECT_EQ(facts.head_size, 64);
  EXPECT_EQ(facts.kv_head_count, 3);
  EXPECT_TRUE(facts.tied_embeddings);
  EXPECT_EQ(facts.weight_type, "Q4_1");
  EXPECT_EQ(facts.weights_fingerprint.size(), 64u);
}

TEST_F(LlamaTarget, RendersTheChatTemplateItself) {
  const auto text = target_->render({{"user", "Hi"}}, true);
  ASSERT_TRUE(text.ok()) << text.error().what;
  // This template puts a system turn of its own in front: a template that is only recognised by its family would not.
  EXPECT_NE(text->find("<|im_start|>system"), std::string::npos) << *text;
  EXPECT_TRUE(text->ends_with("<|im_start|>assistant\n")) << *text;
}

TEST_F(LlamaTarget, TokenizesAndBack) {
  const std::string text = "Three grüne boats — 42!";
  const auto back = target_->detokenize(ids(text));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, text);
  EXPECT_EQ(ids("<|im_end|>").size(), 1u);
}

TEST_F(LlamaTarget, AnswersManyRequestsAndEachLikeAlone) {
  std::vector<GenerateRequest> requests;
  for (const char* text : {"The capital of France is", "2 + 2 =", "Once upon a time", "def add(a, b):", "Water boils at"}) {
    GenerateRequest request;
    request.prompt_ids = ids(text);
    request.max_tokens = 6;
    requests.push_back(request);
  }
  std::vector<std::vector<int32_t>> together(requests.size());
  ASSERT_TRUE(target_->generate(requests, [&](size_t i, Result<Generated> g) -> Status {
    TRY(const Generated answer, std::move(g));
    together[i] = answer.ids;
    return ok_status();
  }, {}).ok());
  for (const auto& answer : together) EXPECT_FALSE(answer.empty());
  std::vector<int32_t> alone;
  ASSERT_TRUE(target_->generate({requests[0]}, [&](size_t, Result<Generated> g) -> Status {
    TRY(const Generated answer, std::move(g));
    alone = answer.ids;
    return ok_status();
  }, {}).ok());
  EXPECT_EQ(together[0][0], alone[0]);  // later tokens may differ by rounding: the weights are quantised
}

TEST_F(LlamaTarget, RefusesAPromptLongerThanTheContextAndAnswersTheOthers) {
  std::vector<GenerateRequest> requests(2);
  requests[0].prompt_ids.assign(300, 100);
  requests[1].prompt_ids = ids("The sky is");
  requests[1].max_tokens = 2;
  Code code = Code::kInternal;
  size_t answered = 0;
  ASSERT_TRUE(target_->generate(requests, [&](size_t i, Result<Generated> g) {
    if (i == 0 && !g.ok()) code = g.error().code;
    if (i == 1 && g.ok()) answered = g->ids.size();
    return ok_status();
  }, {}).ok());
  EXPECT_EQ(code, Code::kInvalid);
  EXPECT_EQ(answered, 2u);
}

TEST_F(LlamaTarget, SampledAnswersRepeatWithTheirSeed) {
  GenerateRequest request;
  request.prompt_ids = ids("A short list of fruits:");
  request.max_tokens = 8;
  request.temperature = 1.0;
  std::vector<std::vector<int32_t>> answers;
  for (uint64_t seed : {7, 7, 8}) {
    request.seed = seed;
    ASSERT_TRUE(target_->generate({request}, [&](size_t, Result<Generated> g) -> Status {
      TRY(const Generated answer, std::move(g));
      answers.push_back(answer.ids);
      return ok_status();
    }, {}).ok());
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_NE(answers[0], answers[2]);
}

TEST_F(LlamaTarget, HooksAndCallbackShowTheSameStates) {
  const TargetConfig config = small_config();
  auto model = llama::open_model(config.model);
  ASSERT_TRUE(model.ok());
  const std::vector<int32_t> text = ids("Seven ships sailed north past the old lighthouse, and none of them came back before winter.");
  const std::vector<int> boundaries = {0, 2, 15, 27, 30};
  std::vector<Captured> both;
  for (bool by_callback : {false, true}) {
    auto capturer = llama::Capturer::open(**model, target_->facts(), config, by_callback);
    ASSERT_TRUE(capturer.ok()) << capturer.error().what;
    auto captured = (*capturer)->run(text, boundaries, {});
    ASSERT_TRUE(captured.ok()) << captured.error().what;
    both.push_back(*std::move(captured));
  }
  for (size_t b = 0; b < boundaries.size(); ++b) EXPECT_EQ(both[0].states[b], both[1].states[b]) << boundaries[b];
  EXPECT_EQ(both[0].last, both[1].last);
}

TEST_F(LlamaTarget, RefusesToCaptureMoreThanTheContext) {
  const std::vector<int32_t> text(300, 100);
  const auto captured = target_->capture(text, std::vector<int>{2}, {});
  ASSERT_FALSE(captured.ok());
  EXPECT_EQ(captured.error().code, Code::kInvalid);
}

TEST_F(LlamaTarget, HeadIsDequantisedAndFits) {
  const auto head = target_->head();
  ASSERT_TRUE(head.ok()) << head.error().what;
  EXPECT_EQ(head->norm.size(), 576u);
  EXPECT_EQ(head->lm_head.size(), size_t{49152} * 576);
  EXPECT_EQ(head->lm_head, head->embeddings);
}

}  // namespace
}  // namespace aerie
