// The embedded engine on tiny F32 models written by the test: exact, so that equality can be asked for. No model file needed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include "target/llama/capture.h"
#include "target/llama/library.h"
#include "target/llama/tiny_model.h"
#include "target/probe.h"

namespace aerie {
namespace {

using test::TinyModel;

class TinyLlama : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : files_) std::filesystem::remove(path);
  }

  TargetConfig config_of(const TinyModel& model) {
    TargetConfig config;
    config.model = testing::TempDir() + "tiny_" + std::to_string(getpid()) + "_" + std::to_string(files_.size()) + ".gguf";
    files_.push_back(config.model);
    EXPECT_TRUE(test::write_tiny_model(config.model, model).ok());
    config.context = 256;
    config.batch = 32;
    config.threads = 1;
    config.parallel = 3;
    config.kv_type = "f32";
    config.flash_attention = false;
    return config;
  }

  std::unique_ptr<Target> open(const TargetConfig& config) {
    auto target = open_target(config);
    EXPECT_TRUE(target.ok()) << target.error().what;
    return target ? *std::move(target) : nullptr;
  }

  std::vector<std::string> files_;
};

std::vector<GenerateRequest> requests_of(Target& target, int count, int max_tokens, double temperature) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < count; ++i) {
    GenerateRequest request;
    // Lengths below, at and above one pass of 32.
    std::string text = "Question " + std::to_string(i) + ": ";
    while (text.size() < 5u + 13u * static_cast<size_t>(i)) text += static_cast<char>('a' + (text.size() * 7 + static_cast<size_t>(i)) % 26);
    request.prompt_ids = *target.tokenize(text, false);
    request.max_tokens = max_tokens;
    request.temperature = temperature;
    request.top_p = temperature > 0 ? 0.95 : 1;
    request.seed = 100 + static_cast<uint64_t>(i);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Generated> answers_of(Target& target, const std::vector<GenerateRequest>& requests) {
  std::vector<Generated> answers(requests.size());
  const Status done = target.generate(requests, [&](size_t i, Result<Generated> generated) -> Status {
    TRY(answers[i], std::move(generated));
    return ok_status();
  }, {});
  EXPECT_TRUE(done.ok()) << done.error().what;
  return answers;
}

// Greedy ids by capture() and the head alone: the slow, plain way.
std::vector<int32_t> greedy_by_capture(Target& target, std::vector<int32_t> ids, size_t count) {
  const auto head = target.head();
  const size_t width = head->norm.size();
  std::vector<int32_t> said;
  while (said.size() < count) {
    const auto captured = target.capture(ids, std::vector<int>{}, {});
    const float* row = captured->last.data() + (ids.size() - 1) * width;
    double square = 0;
    for (size_t i = 0; i < width; ++i) square += double{row[i]} * row[i];
    const double scale = 1 / std::sqrt(square / static_cast<double>(width) + target.facts().rms_norm_eps);
    int32_t best = 0;
    double most = -1e300;
    for (int32_t v = 0; v < target.facts().vocab_size; ++v) {
      double logit = 0;
      for (size_t i = 0; i < width; ++i) logit += row[i] * scale * head->norm[i] * head->lm_head[static_cast<size_t>(v) * width + i];
      if (logit > most) most = logit, best = v;
    }
    said.push_back(best);
    ids.push_back(best);
    if (best == test::kTinyEnd) break;
  }
  return said;
}

TEST_F(TinyLlama, AnswersAreThoseOfTheCapturedStates) {
  auto target = open(config_of({}));
  const auto requests = requests_of(*target, 5, 8, 0);
  const auto answers = answers_of(*target, requests);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(answers[i].ids, greedy_by_capture(*target, requests[i].prompt_ids, 8)) << i;
}

TEST_F(TinyLlama, AnswersDoNotDependOnWhatRunsBesideThem) {
  TargetConfig config = config_of({});
  for (double temperature : {0.0, 0.8}) {
    auto target = open(config);
    const auto requests = requests_of(*target, 9, 20, temperature);
    const auto together = answers_of(*target, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = answers_of(*target, {requests[i]});
      EXPECT_EQ(together[i].ids, alone[0].ids) << "request " << i << " at temperature " << temperature;
      EXPECT_EQ(together[i].stopped, alone[0].stopped);
    }
  }
}

TEST_F(TinyLlama, AnswersEndWithTheEndTokenOrTheLimitOrTheContext) {
  TargetConfig config = config_of({});
  config.context = 256;
  auto target = open(config);
  auto requests = requests_of(*target, 12, 40, 1.5);
  requests.push_back(requests.front());
  requests.back().prompt_ids.assign(250, 'x');
  requests.back().max_tokens = 100;
  requests.back().temperature = 0;
  const auto answers = answers_of(*target, requests);
  size_t ended = 0;
  for (size_t i = 0; i + 1 < answers.size(); ++i) {
    const auto end = std::find(answers[i].ids.begin(), answers[i].ids.end(), test::kTinyEnd);
    EXPECT_EQ(answers[i].stopped, end != answers[i].ids.end());
    if (answers[i].stopped) {
      EXPECT_EQ(end + 1, answers[i].ids.end()) << "nothing follows the end token";
      ++ended;
    } else {
      EXPECT_EQ(answers[i].ids.size(), 40u);
    }
  }
  EXPECT_GT(ended, 0u) << "with these weights some answers end by themselves";
  // 250 tokens of 256: six more fit, and one more is said of the last of them.
  EXPECT_FALSE(answers.back().stopped);
  EXPECT_EQ(answers.back().ids.size(), 7u);
}

TEST_F(TinyLlama, BadRequestsAreRefusedAloneAndTheOthersAnswered) {
  auto target = open(config_of({}));
  auto requests = requests_of(*target, 4, 3, 0);
  requests[0].prompt_ids.assign(300, 'x');
  requests[1].prompt_ids.clear();
  requests[2].prompt_ids.push_back(99999);
  std::vector<std::string> refusals(4);
  size_t answered = 0;
  ASSERT_TRUE(target->generate(requests, [&](size_t i, Result<Generated> generated) {
    if (generated)
      ++answered;
    else
      refusals[i] = generated.error().what;
    return ok_status();
  }, {}).ok());
  EXPECT_NE(refusals[0].find("300 tokens"), std::string::npos) << refusals[0];
  EXPECT_NE(refusals[1].find("no tokens"), std::string::npos) << refusals[1];
  EXPECT_NE(refusals[2].find("99999"), std::string::npos) << refusals[2];
  EXPECT_EQ(answered, 1u);
}

TEST_F(TinyLlama, AFailureOfTheCallerEndsTheRun) {
  auto target = open(config_of({}));
  const auto requests = requests_of(*target, 4, 3, 0);
  const Status done = target->generate(requests, [&](size_t, Result<Generated>) -> Status { return full("no space left"); }, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kFull);
  EXPECT_EQ(answers_of(*target, requests).size(), 4u) << "and the next run starts afresh";
}

TEST_F(TinyLlama, BeginsNothingMoreOnceItIsEnoughButEndsWhatWasBegun) {
  TargetConfig config = config_of({});
  config.parallel = 2;
  auto target = open(config);
  const auto requests = requests_of(*target, 6, 5, 0);
  std::stop_source enough;
  size_t answered = 0;
  const Status done = target->generate(requests, [&](size_t, Result<Generated> generated) -> Status {
    CHECKED(generated);
    enough.request_stop();
    ++answered;
    return ok_status();
  }, {}, enough.get_token());
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(answered, 2u);
}

TEST_F(TinyLlama, StopsWhenAskedInTheMiddleOfARun) {
  TargetConfig config = config_of({.layers = 16, .width = 256, .inner = 1024});
  auto target = open(config);
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  std::vector<GenerateRequest> requests = requests_of(*target, 3, 200, 0);
  for (int i = 0; i < 2000; ++i) requests.push_back(requests[static_cast<size_t>(i) % 3]);
  const Status done = target->generate(requests, [&](size_t, Result<Generated>) { return ok_status(); }, stop.get_token());
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  const auto captured = target->capture(requests[0].prompt_ids, std::vector<int>{2}, stop.get_token());
  ASSERT_FALSE(captured.ok());
  EXPECT_EQ(captured.error().code, Code::kCancelled);
}

TEST_F(TinyLlama, LongSequencesGiveTheSameRowsInOnePassAndInMany) {
  TargetConfig config = config_of({});
  std::vector<int32_t> ids;
  for (int i = 0; i < 150; ++i) ids.push_back((i * 37 + i / 7) % 256);
  const std::vector<int> boundaries = {0, 2, 4, 5, 8};
  config.batch = 256;
  const auto whole = open(config)->capture(ids, boundaries, {});
  ASSERT_TRUE(whole.ok()) << whole.error().what;
  for (int batch : {8, 32, 149}) {
    config.batch = batch;
    const auto parts = open(config)->capture(ids, boundaries, {});
    ASSERT_TRUE(parts.ok()) << parts.error().what;
    ASSERT_EQ(parts->row_count, 150);
    for (size_t b = 0; b < boundaries.size(); ++b) {
      ASSERT_EQ(parts->states[b].size(), whole->states[b].size());
      for (size_t i = 0; i < whole->states[b].size(); ++i)
        ASSERT_NEAR(parts->states[b][i], whole->states[b][i], 1e-3) << "batch " << batch << ", boundary " << boundaries[b] << ", row " << i / 64;
    }
    for (size_t i = 0; i < whole->last.size(); ++i) ASSERT_NEAR(parts->last[i], whole->last[i], 1e-3) << "batch " << batch << ", row " << i / 64;
  }
}

TEST_F(TinyLlama, ACaptureDoesNotDependOnTheOneBefore) {
  auto target = open(config_of({}));
  const std::vector<int32_t> first = {10, 20, 30, 40, 50}, second = {5, 6, 7};
  const std::vector<int> boundaries = {2, 4, 5};
  const auto before = target->capture(second, boundaries, {});
  ASSERT_TRUE(target->capture(first, std::vector<int>{3}, {}).ok());
  const auto after = target->capture(second, boundaries, {});
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->states, after->states);
  EXPECT_EQ(before->last, after->last);
}

TEST_F(TinyLlama, HooksAndCallbackGiveTheSameBits) {
  const TargetConfig config = config_of({});
  auto target = open(config);
  auto model = llama::open_model(config.model);
  ASSERT_TRUE(model.ok());
  std::vector<int32_t> ids;
  for (int i = 0; i < 70; ++i) ids.push_back((i * 31) % 256);
  const std::vector<int> boundaries = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<Captured> both;
  for (bool by_callback : {false, true}) {
    auto capturer = llama::Capturer::open(**model, target->facts(), config, by_callback);
    ASSERT_TRUE(capturer.ok());
    auto captured = (*capturer)->run(ids, boundaries, {});
    ASSERT_TRUE(captured.ok()) << captured.error().what;
    both.push_back(*std::move(captured));
  }
  EXPECT_EQ(both[0].states, both[1].states);
  EXPECT_EQ(both[0].last, both[1].last);
}

// qwen2 has no hooks for layer inputs (asking for them would end the program); gemma scales its embeddings.
TEST_F(TinyLlama, ArchitecturesWithoutHooksPassTheProbeByCallback) {
  for (const char* architecture : {"qwen2", "gemma"}) {
    auto target = open(config_of({.architecture = architecture}));
    ASSERT_NE(target, nullptr) << architecture;
    const auto boundaries = default_boundaries(8);
    const auto report = probe(*target, *boundaries, {});
    EXPECT_TRUE(report.ok()) << architecture << ": " << report.error().what;
  }
}

TEST_F(TinyLlama, ScaledEmbeddingsAreWhatEntersTheFirstLayer) {
  auto target = open(config_of({.architecture = "gemma"}));
  ASSERT_NE(target, nullptr);
  const std::vector<int32_t> ids = {65, 66, 67};
  const auto captured = target->capture(ids, std::vector<int>{0}, {});
  ASSERT_TRUE(captured.ok()) << captured.error().what;
  const auto head = target->head();
  for (size_t j = 0; j < ids.size(); ++j)
    for (size_t i = 0; i < 64; ++i)
      EXPECT_NEAR(captured->states[0][j * 64 + i], 8 * head->embeddings[static_cast<size_t>(ids[j]) * 64 + i], 1e-4);
}

TEST_F(TinyLlama, AskingForABoundaryThatIsNotThereOrTwiceIsRefused) {
  auto target = open(config_of({}));
  const std::vector<int32_t> ids = {1, 2, 3};
  for (const std::vector<int>& boundaries : {std::vector<int>{2, 9}, std::vector<int>{-1}, std::vector<int>{2, 5, 2}}) {
    const auto captured = target->capture(ids, boundaries, {});
    ASSERT_FALSE(captured.ok());
    EXPECT_EQ(captured.error().code, Code::kInvalid);
  }
  const auto foreign = target->capture(std::vector<int32_t>{1, 5000}, std::vector<int>{2}, {});
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().what.find("5000"), std::string::npos);
}

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

TEST_F(TinyLlama, ABosThatTheTemplateWritesStandsOnceWhetherOrNotTheTokenizerAddsOne) {
  for (bool add_bos : {false, true}) {
    auto target = open(config_of({.add_bos = add_bos, .chat_template = kTemplate}));
    ASSERT_NE(target, nullptr);
    const auto text = target->render({{"user", "Hi"}}, true);
    ASSERT_TRUE(text.ok()) << text.error().what;
    EXPECT_EQ(*text, "<|start|>[user]Hi[assistant]") << add_bos;
    const auto ids = target->tokenize(*text, true);
    EXPECT_EQ(std::count(ids->begin(), ids->end(), test::kTinyStart), 1);
  }
}

TEST_F(TinyLlama, WithoutAChatTemplateNothingIsRendered) {
  auto target = open(config_of({}));
  const auto text = target->render({{"user", "Hi"}}, true);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, Code::kInvalid);
  EXPECT_NE(text.error().what.find("no chat template"), std::string::npos);
}

TEST_F(TinyLlama, ATemplateThatRaisesIsAnErrorOfTheseMessages) {
  auto target = open(config_of({.chat_template = "{% for m in messages %}{% if m['content'] == 'Be rude' %}{{ raise_exception('no rudeness') }}{% endif %}[{{ m['content'] }}]{% endfor %}"}));
  EXPECT_TRUE(target->render({{"user", "Hi"}}, true).ok());
  const auto text = target->render({{"user", "Be rude"}}, true);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, Code::kInvalid);
  EXPECT_NE(text.error().what.find("no rudeness"), std::string::npos) << text.error().what;
}

TEST_F(TinyLlama, FingerprintsFollowWeightsTokenizerTemplateAndArchitecture) {
  const std::string same = open(config_of({}))->facts().weights_fingerprint;
  EXPECT_EQ(open(config_of({}))->facts().weights_fingerprint, same);
  EXPECT_NE(open(config_of({.seed = 2}))->facts().weights_fingerprint, same);
  EXPECT_NE(open(config_of({.context = 511}))->facts().weights_fingerprint, same);
  EXPECT_NE(open(config_of({.add_bos = true}))->facts().weights_fingerprint, same);
  EXPECT_NE(open(config_of({.chat_template = kTemplate}))->facts().weights_fingerprint, same);
}

}  // namespace
}  // namespace aerie
