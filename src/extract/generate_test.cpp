#include "extract/generate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <thread>

#include "extract/test_support.h"
#include "target/fake_target.h"

namespace aerie {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<Prompt> prompts(int count) {
  std::vector<Prompt> out;
  for (int i = 0; i < count; ++i)
    out.push_back({"p" + std::to_string(i), {{"user", "Question number " + std::to_string(i * i) + "?"}}});
  return out;
}

class Generate : public ExtractRoom {
 protected:
  Generate() {
    config_.max_tokens = 12;
    config_.temperature = 0.9;
  }
  Result<GenerateStats> run(Target& target, const std::vector<Prompt>& asked, FileSystem& fs = real_file_system()) {
    return generate(target, asked, config_, path("out.jsonl"), *run_, stop_.get_token(), fs);
  }
  std::map<std::string, std::vector<int32_t>> ids_of_output() {
    std::map<std::string, std::vector<int32_t>> out;
    for (const Conversation& c : conversations(path("out.jsonl")))
      EXPECT_TRUE(out.emplace(c.id, c.token_ids).second) << c.id << " stands twice";
    return out;
  }

  GenerateConfig config_;
  std::stop_source stop_;
};

TEST_F(Generate, KeepsPromptAndAnswerAsTheTargetsOwnIds) {
  config_.temperature = 0;
  FakeTarget target;
  const auto stats = run(target, prompts(5));
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->answered, 5);
  const auto made = conversations(path("out.jsonl"));
  ASSERT_EQ(made.size(), 5u);
  for (const Conversation& c : made) {
    ASSERT_EQ(c.loss_spans.size(), 1u);
    const auto begin = static_cast<size_t>(c.loss_spans[0].begin);
    EXPECT_EQ(static_cast<size_t>(c.loss_spans[0].end), c.token_ids.size());
    const auto text = target.render({{"user", c.messages[0].content}}, true);
    const auto prompt_ids = target.tokenize(*text, true);
    EXPECT_EQ(std::vector(c.token_ids.begin(), c.token_ids.begin() + static_cast<ptrdiff_t>(begin)), *prompt_ids);
    GenerateRequest request{*prompt_ids, 12, 0, 1, 0, 0};
    ASSERT_TRUE(target.generate({request}, [&](size_t, Result<Generated> answer) -> Status {
      EXPECT_EQ(std::vector(c.token_ids.begin() + static_cast<ptrdiff_t>(begin), c.token_ids.end()), answer->ids);
      EXPECT_EQ(c.finish_reason, answer->stopped ? "stop" : "length");
      return ok_status();
    }, {}));
    EXPECT_EQ(c.target_fingerprint, target.facts().weights_fingerprint);
    EXPECT_EQ(c.messages.back().role, "assistant");
    EXPECT_THAT(c.messages.back().content, Not(HasSubstr("<|end|>")));
  }
}

TEST_F(Generate, AsksNothingAgainThatIsThere) {
  FakeTarget target;
  ASSERT_TRUE(run(target, prompts(6)));
  const std::string before = text_of(path("out.jsonl"));
  const int answers = target.answers();
  const auto stats = run(target, prompts(6));
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->already_there, 6);
  EXPECT_EQ(target.answers(), answers);
  EXPECT_EQ(text_of(path("out.jsonl")), before);
}

TEST_F(Generate, GivesTheSameAnswersWhereverItWasInterrupted) {
  FakeTarget whole;
  ASSERT_TRUE(run(whole, prompts(8)));
  const auto expected = ids_of_output();
  for (int fail = 1; fail <= 8; ++fail) {
    ASSERT_TRUE(fs_.remove(path("out.jsonl")));
    FakeTarget target;
    target.faults().fail_generate_at = fail;
    const auto failed = run(target, prompts(8));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kUnavailable);
    EXPECT_EQ(conversations(path("out.jsonl")).size(), static_cast<size_t>(fail - 1));
    const auto rest = run(target, prompts(8));
    ASSERT_TRUE(rest) << rest.error().what;
    EXPECT_EQ(rest->already_there, fail - 1);
    EXPECT_EQ(ids_of_output(), expected);
  }
}

TEST_F(Generate, BeginsNoAnswerAfterItsTimeIsOverAndAsksTheRestTheNextTime) {
  FakeTarget target;
  config_.time_limit_s = 1e-9;
  const auto hurried = run(target, prompts(5));
  ASSERT_TRUE(hurried) << hurried.error().what;
  EXPECT_EQ(hurried->answered, 1) << "what was begun ends";
  EXPECT_EQ(hurried->not_asked, 4);
  config_.time_limit_s = 1000;
  const auto rest = run(target, prompts(5));
  ASSERT_TRUE(rest) << rest.error().what;
  EXPECT_EQ(rest->already_there, 1);
  EXPECT_EQ(rest->not_asked, 0);
  EXPECT_EQ(ids_of_output().size(), 5u);
}

TEST_F(Generate, GoesOnAfterAKillInTheMiddleOfALine) {
  FakeTarget target;
  ASSERT_TRUE(run(target, prompts(4)));
  const auto expected = ids_of_output();
  const std::string whole = text_of(path("out.jsonl"));
  for (const size_t kept : {whole.size() - 1, whole.size() - 30, whole.size() / 2, size_t{5}, size_t{0}}) {
    ASSERT_TRUE(write_file_atomically(fs_, path("out.jsonl"), whole.substr(0, kept)));
    const auto stats = run(target, prompts(4));
    ASSERT_TRUE(stats) << stats.error().what;
    EXPECT_EQ(ids_of_output(), expected) << kept;
  }
}

TEST_F(Generate, DoesNotDependOnOrderOrWindows) {
  FakeTarget target;
  ASSERT_TRUE(run(target, prompts(40)));
  EXPECT_EQ(target.largest_window(), 40u);
  const auto expected = ids_of_output();
  ASSERT_TRUE(fs_.remove(path("out.jsonl")));
  auto backwards = prompts(40);
  std::reverse(backwards.begin(), backwards.end());
  config_.window_kb = 1;
  FakeTarget other;
  ASSERT_TRUE(run(other, backwards));
  EXPECT_LT(other.largest_window(), 10u) << "a window is bounded in bytes";
  EXPECT_EQ(ids_of_output(), expected);
  ASSERT_TRUE(fs_.remove(path("out.jsonl")));
  config_.seed = 2;
  ASSERT_TRUE(run(target, prompts(40)));
  EXPECT_NE(ids_of_output(), expected);
}

TEST_F(Generate, RefusesToMixAnswersOfTwoTargets) {
  FakeTarget first;
  ASSERT_TRUE(run(first, prompts(2)));
  FakeTarget second({.seed = 2});
  const auto mixed = run(second, prompts(3));
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, Code::kInvalid);
  EXPECT_THAT(mixed.error().what, AllOf(HasSubstr(first.facts().weights_fingerprint),
                                        HasSubstr(second.facts().weights_fingerprint), HasSubstr("out.jsonl")));
  EXPECT_EQ(second.answers(), 0);
}

TEST_F(Generate, RecordsAPromptThatIsTooLongAndAnswersTheRest) {
  FakeTarget target({.context_length = 100});
  auto asked = prompts(3);
  asked[1].messages[0].content = std::string(200, 'x');
  for (int round = 0; round < 2; ++round) {
    const auto stats = run(target, asked);
    ASSERT_TRUE(stats) << stats.error().what;
    EXPECT_EQ(stats->skipped, 1);
    EXPECT_EQ(stats->answered + stats->already_there, 2);
  }
  const std::string skipped = text_of(run_->file("skipped.jsonl"));
  EXPECT_THAT(skipped, AllOf(HasSubstr("\"p1\""), HasSubstr("longer than the context of 100")));
  EXPECT_EQ(std::count(skipped.begin(), skipped.end(), '\n'), 1) << "the second run says nothing new";
}

TEST_F(Generate, FailsWhenNoPromptAtAllCanBeAnswered) {
  FakeTarget target({.context_length = 10});
  const auto stats = run(target, prompts(3));
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kInvalid);
  EXPECT_THAT(stats.error().what, AllOf(HasSubstr("none of the 3 prompts"), HasSubstr("longer than the context")));
}

TEST_F(Generate, RefusesAModelWithoutAChatTemplate) {
  FakeTarget target({.chat_template = false});
  const auto stats = run(target, prompts(1));
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kInvalid);
  EXPECT_THAT(stats.error().what, AllOf(HasSubstr("fake-1"), HasSubstr("no chat template")));
}

TEST_F(Generate, StopsOnRequestAndKeepsWhatIsDone) {
  FakeTarget target;
  target.faults().delay_s = 0.02;
  std::jthread stopper([&] {
    while (target.answers() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop_.request_stop();
  });
  const auto stats = run(target, prompts(100));
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kCancelled);
  const size_t kept = conversations(path("out.jsonl")).size();
  EXPECT_GE(kept, 2u);
  EXPECT_LT(kept, 100u);
}

TEST_F(Generate, OnAFullDiskSaysSoAndKeepsWhatFitted) {
  FakeTarget target;
  WatchedFileSystem disk = disk_with_room(2500);
  const auto stats = run(target, prompts(20), disk);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kFull);
  EXPECT_EQ(exit_code(stats.error()), 3);
  const size_t kept = conversations(path("out.jsonl")).size();
  EXPECT_GT(kept, 0u);
  const auto rest = run(target, prompts(20));
  ASSERT_TRUE(rest) << rest.error().what;
  EXPECT_EQ(rest->already_there, static_cast<int64_t>(kept));
  EXPECT_EQ(ids_of_output().size(), 20u);
}

TEST_F(Generate, PutsTheSystemMessageInFrontAndObeysTheLimit) {
  FakeTarget target;
  config_.system = "Be brief.";
  config_.limit = 2;
  auto asked = prompts(3);
  asked[0].messages.insert(asked[0].messages.begin(), {"system", "Be long."});
  ASSERT_TRUE(run(target, asked));
  std::map<std::string, std::string> system;
  for (const Conversation& c : conversations(path("out.jsonl"))) system[c.id] = c.messages[0].content;
  EXPECT_EQ(system, (std::map<std::string, std::string>{{"p0", "Be long."}, {"p1", "Be brief."}}));
}

TEST_F(Generate, AsksForSeveralAnswersEachWithItsOwnIdAndSeedAndAddsMoreLater) {
  FakeTarget target;
  config_.answers = 2;
  const auto stats = run(target, prompts(4));
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->answered, 8);
  const auto first = ids_of_output();
  ASSERT_EQ(first.size(), 8u);
  int different = 0;
  for (const auto& [id, ids] : first)
    if (!id.ends_with("#answer2")) different += ids != first.at(id + "#answer2") ? 1 : 0;
  EXPECT_GT(different, 0) << "each answer has a seed of its own";
  config_.answers = 3;
  const auto more = run(target, prompts(4));
  ASSERT_TRUE(more) << more.error().what;
  EXPECT_EQ(more->answered, 4);
  EXPECT_EQ(more->already_there, 8);
  EXPECT_TRUE(ids_of_output().contains("p3#answer3"));
}

TEST_F(Generate, RefusesSeveralAnswersThatWouldAllBeTheSame) {
  FakeTarget target;
  config_.answers = 2;
  config_.temperature = 0;
  const auto stats = run(target, prompts(2));
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kInvalid);
  EXPECT_THAT(stats.error().what, HasSubstr("generate.temperature"));
}

TEST_F(Generate, WritesItsProgressAndItsEnd) {
  FakeTarget target;
  ASSERT_TRUE(run(target, prompts(3)));
  EXPECT_THAT(text_of(run_->file("events.jsonl")), AllOf(HasSubstr("generate_started"), HasSubstr("generate_done")));
  EXPECT_THAT(text_of(run_->file("progress.json")), HasSubstr("\"generate\""));
}

}  // namespace
}  // namespace aerie
