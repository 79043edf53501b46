// What a run leaves for others to read: the run folder, the log, progress; and how it is asked to stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/log.h"
#include "base/progress.h"
#include "base/run_folder.h"
#include "base/stop.h"
#include "base/text.h"

namespace aerie {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using testing::MatchesRegex;
using testing::SizeIs;

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "aerie_run_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder);
  }
  void TearDown() override {
    EXPECT_TRUE(set_log_file("").ok());
    std::filesystem::remove_all(folder);
  }
  std::unique_ptr<RunFolder> opened() {
    auto run = RunFolder::open(folder, {"aerie", "train", "a \"b\""}, "[train]\nlr = 1.0\n", clock);
    EXPECT_TRUE(run.ok()) << run.error().what;
    return run ? std::move(*run) : nullptr;
  }
  std::string text(const std::string& name) {
    const auto content = read_file(real_file_system(), folder + "/" + name);
    return content ? *content : "(" + std::string(code_name(content.error().code)) + ")";
  }
  std::vector<std::string> lines(const std::string& name) {
    std::vector<std::string> all;
    const std::string content = text(name);
    for (std::string_view line : split(content, '\n'))
      if (!line.empty()) all.emplace_back(line);
    return all;
  }

  FakeClock clock;
  std::string folder;
};

TEST_F(Runs, SayWhoRunsWhatAndHowItEnded) {
  {
    auto run = opened();
    EXPECT_THAT(text("run.json"),
                AllOf(HasSubstr(R"("argv":["aerie","train","a \"b\""])"), HasSubstr(R"("version":"aerie )"),
                      HasSubstr(R"("host":")"), HasSubstr("\"pid\":" + std::to_string(::getpid())),
                      HasSubstr(R"("start_time":"2025-06-15T15:06:40.000Z")"), HasSubstr(R"("state":"running")")));
    EXPECT_EQ(text("run.json").find(R"("boot_id":"")"), std::string::npos) << "the kernel's boot id is known on Linux";
    EXPECT_EQ(text("config.toml"), "[train]\nlr = 1.0\n");
    ASSERT_TRUE(run->finish("done", "all is well").ok());
  }
  EXPECT_THAT(text("run.json"), AllOf(HasSubstr(R"("state":"done")"), HasSubstr(R"("message":"all is well")")));
}

TEST_F(Runs, AreInterruptedUnlessFinished) {
  opened().reset();
  EXPECT_THAT(text("run.json"), HasSubstr(R"("state":"interrupted")"));
}

TEST_F(Runs, HoldTheirFolderAloneAndNameTheHolder) {
  auto run = opened();
  const auto second = RunFolder::open(folder, {}, "", clock);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().what,
              AllOf(HasSubstr(folder), HasSubstr("in use by process " + std::to_string(::getpid()))));
  EXPECT_THAT(text("run.json"), HasSubstr(R"("argv":["aerie")")) << "the loser changes nothing";
  run.reset();
  EXPECT_TRUE(RunFolder::open(folder, {}, "", clock).ok()) << "the lock goes with its holder";
}

TEST_F(Runs, AreRidOfWhatKilledWritesLeftButNotInFoldersWithALockOfTheirOwn) {
  const auto put = [&](const std::string& name) {
    std::filesystem::create_directories(folder_of(folder + "/" + name));
    std::ofstream(folder + "/" + name) << "x";
  };
  const auto there = [&](const std::string& name) { return std::filesystem::exists(folder + "/" + name); };
  for (const char* name : {"run.json.tmp-1-0", "checkpoints/last/draft.safetensors.tmp-1-1", "checkpoints/last/mine.tmp",
                           "store/lock", "store/store.json.tmp-1-2"})
    put(name);
  opened();
  EXPECT_FALSE(there("run.json.tmp-1-0"));
  EXPECT_FALSE(there("checkpoints/last/draft.safetensors.tmp-1-1"));
  EXPECT_TRUE(there("checkpoints/last/mine.tmp"));
  EXPECT_TRUE(there("store/store.json.tmp-1-2")) << "its writer may be at work";
}

TEST_F(Runs, LoseTheLockWithTheirProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto run = RunFolder::open(folder, {"child"}, "", clock);
    ::_exit(run.ok() ? 0 : 1);  // as a kill would: nothing is closed or finished
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(text("run.json"), HasSubstr(R"("state":"running")"));
  EXPECT_NE(opened(), nullptr);
}

TEST_F(Runs, WriteOneEventALine) {
  auto run = opened();
  clock.advance(1.5);
  ASSERT_TRUE(run->event("step", {{"loss", 0.5}, {"n", 3}}, "\"steps\":[1,2]").ok());
  ASSERT_TRUE(run->event("end", {}).ok());
  EXPECT_THAT(lines("events.jsonl"),
              testing::ElementsAre(R"({"t":1750000001.5,"event":"step","loss":0.5,"n":3,"steps":[1,2]})",
                                   R"({"t":1750000001.5,"event":"end"})"));
}

TEST_F(Runs, WriteWholeLinesFromManyThreads) {
  auto run = opened();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) EXPECT_TRUE(run->event("e", {{"text", std::string(50, 'x')}}).ok());
      });
  }
  const auto all = lines("events.jsonl");
  EXPECT_THAT(all, SizeIs(400));
  EXPECT_THAT(all, testing::Each(testing::EndsWith(R"("event":"e","text":")" + std::string(50, 'x') + "\"}")));
}

TEST_F(Runs, CutOffTheTornLineOfAKilledRun) {
  opened().reset();
  std::ofstream(folder + "/events.jsonl") << "{\"event\":\"whole\"}\n{\"event\":\"to" << std::string(100'000, 'x');
  std::ofstream(folder + "/log.jsonl") << "torn";
  auto run = opened();
  ASSERT_TRUE(run->event("next", {}).ok());
  const auto all = lines("events.jsonl");
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0], "{\"event\":\"whole\"}");
  EXPECT_THAT(all[1], HasSubstr("next"));
  EXPECT_EQ(text("log.jsonl"), "");
}

TEST_F(Runs, KeepTheEventsOfEarlierRunsAndSweepTheirTemporaries) {
  {
    auto run = opened();
    ASSERT_TRUE(run->event("first", {}).ok());
  }
  std::ofstream(folder + "/progress.json.tmp-1-7") << "left by a kill";
  auto run = opened();
  EXPECT_FALSE(std::filesystem::exists(folder + "/progress.json.tmp-1-7"));
  ASSERT_TRUE(run->event("second", {}).ok());
  EXPECT_THAT(lines("events.jsonl"), SizeIs(2));
}

TEST_F(Runs, SayWhyAFolderCannotBeUsed) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/file") << "x";
  const auto refused = RunFolder::open(folder + "/file", {}, "", clock);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().what, HasSubstr("is a file, and a folder is needed there"));
}

TEST_F(Runs, LogOneLineForPeopleAndOneForMachines) {
  auto run = opened();
  testing::internal::CaptureStderr();
  log_warning("sample_skipped", "sample 7 is skipped: it is too long", {{"sample", 7}});
  log(Level::kDebug, "detail", "not shown");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("[0-9][0-9]:[0-9][0-9]:[0-9][0-9] warning  sample 7 is skipped: it is too long\n"));
  const auto all = lines("log.jsonl");
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(
      all[0],
      HasSubstr(
          R"("level":"warning","event":"sample_skipped","message":"sample 7 is skipped: it is too long","sample":7})"));
}

TEST_F(Runs, LogGoesOnWhenItsFileIsLost) {
  ASSERT_TRUE(set_log_file("/dev/full").ok());
  testing::internal::CaptureStderr();
  log_info("a", "first");
  log_info("b", "second");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("first"), HasSubstr("second"),
                          HasSubstr("the log file is lost: writing /dev/full: No space left")));
  EXPECT_EQ(said.find("is lost", said.find("is lost") + 1), std::string::npos) << "said once";
  EXPECT_FALSE(set_log_file("/no/such/folder/log").ok());
}

// --- progress
// ---------------------------------------------------------------------------------------------------------

TEST_F(Runs, ProgressShowsCommittedWorkRateAndTimeLeft) {
  auto run = opened();
  testing::internal::CaptureStderr();
  Progress progress({"extract", "samples", 1000, 100, "tokens"}, run.get(), clock);
  for (int i = 0; i < 30; ++i) {
    clock.advance(1);
    progress.facts({{"loss", 2.34567}});
    progress.advance(2, 50);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << "one line every 10 s where there is no terminal:\n"
                                                           << said;
  EXPECT_THAT(
      said, HasSubstr("extract  16 %  160/1000 samples  2.0 samples/s  50.0 tokens/s  7 min 00 s left  loss 2.346\n"));
  EXPECT_THAT(text("progress.json"),
              AllOf(HasSubstr(R"("stage":"extract","state":"running","unit":"samples","done":160,"total":1000)"),
                    HasSubstr(R"("rate_last_minute":2,)"), HasSubstr(R"("eta_s":420)"),
                    HasSubstr(R"("second_done":1500)"), HasSubstr(R"("facts":{"loss":2.34567})")));
  progress.finish("");
  EXPECT_THAT(text("progress.json"), HasSubstr(R"("state":"done")"));
}

TEST_F(Runs, ProgressForgetsARateThatIsOlderThanItsWindow) {
  auto run = opened();
  testing::internal::CaptureStderr();
  Progress progress({"train", "steps", 100, 0, ""}, run.get(), clock);
  for (int i = 0; i < 20; ++i) clock.advance(1), progress.advance(1);
  for (int i = 0; i < 95; ++i) clock.advance(1), progress.tick();
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string last = said.substr(said.rfind("train  "));
  EXPECT_THAT(last, AllOf(HasSubstr("20/100 steps  nothing finished for 1 min 3"), testing::Not(HasSubstr("steps/s"))));
  EXPECT_THAT(text("progress.json"),
              AllOf(testing::Not(HasSubstr("rate_last_minute")), testing::Not(HasSubstr("eta_s")),
                    HasSubstr(R"("seconds_since_progress":95)")));
}

TEST_F(Runs, ProgressOfTheLastMinuteIsNotThatOfTheRun) {
  auto run = opened();
  Progress progress({"train", "steps", 0, 0, ""}, run.get(), clock);
  for (int i = 0; i < 100; ++i) clock.advance(1), progress.advance(10);
  for (int i = 0; i < 100; ++i) clock.advance(1), progress.advance(1);
  EXPECT_THAT(text("progress.json"), AllOf(HasSubstr(R"("rate_last_minute":1,)"), HasSubstr(R"("rate_run":5.5,)"),
                                           testing::Not(HasSubstr("eta_s"))));
}

TEST_F(Runs, ProgressOfAStageWithATimeLimitEndsWithTheTime) {
  auto run = opened();
  testing::internal::CaptureStderr();
  Progress progress({"generate", "answers", 1000, 0, "", 40}, run.get(), clock);
  for (int i = 0; i < 30; ++i) clock.advance(1), progress.advance(1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("generate  75 %  30/1000 answers  1.0 answers/s  10 s left"));
  EXPECT_THAT(text("progress.json"), HasSubstr(R"("eta_s":10)"));
  for (int i = 0; i < 20; ++i) clock.advance(1), progress.advance(50);
  EXPECT_THAT(text("progress.json"), HasSubstr(R"("eta_s":0)")) << "never below";
}

TEST_F(Runs, ProgressIsWrittenAtMostOnceASecond) {
  auto run = opened();
  Progress progress({"train", "steps", 100, 0, ""}, run.get(), clock);
  const std::string first = text("progress.json");
  clock.advance(0.9);
  progress.advance(1);
  EXPECT_EQ(text("progress.json"), first);
  clock.advance(0.2);
  progress.advance(1);
  EXPECT_THAT(text("progress.json"), HasSubstr(R"("done":2)"));
}

TEST_F(Runs, ProgressThatCannotBeWrittenDoesNotStopTheWork) {
  auto run = opened();
  Progress progress({"train", "steps", 100, 0, ""}, run.get(), clock);
  std::filesystem::remove(folder + "/progress.json");
  std::filesystem::create_directory(folder + "/progress.json");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) clock.advance(1), progress.advance(1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("progress is no longer written"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(Runs, ProgressThatIsDroppedSaysStopped) {
  auto run = opened();
  { Progress progress({"train", "steps", 100, 0, ""}, run.get(), clock); }
  EXPECT_THAT(text("progress.json"), HasSubstr(R"("state":"stopped")"));
}

TEST(Durations, AreInWords) {
  EXPECT_EQ(duration_text(12.4), "12 s");
  EXPECT_EQ(duration_text(190), "3 min 10 s");
  EXPECT_EQ(duration_text(3720), "1 h 02 min");
  EXPECT_EQ(duration_text(-1), "0 s");
}

// --- stopping
// ---------------------------------------------------------------------------------------------------------

// Runs in a child, because handlers stay for the whole program.
int status_of_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Stopping, AFirstSignalAsksAndASecondEndsAtOnce) {
  const auto asked = [](int signal) {
    return status_of_child([signal] {
      const std::stop_token stop = stop_on_signals();
      ::kill(::getpid(), signal);
      return sleep_for(5, stop) ? 1 : 42;
    });
  };
  EXPECT_EQ(asked(SIGINT), 42);
  EXPECT_EQ(asked(SIGTERM), 42);
  EXPECT_EQ(status_of_child([] {
              (void)stop_on_signals();
              ::kill(::getpid(), SIGINT);
              ::kill(::getpid(), SIGTERM);
              std::this_thread::sleep_for(std::chrono::seconds(5));
              return 1;
            }),
            130);
}

TEST(Stopping, AProgramWithoutSignalsEndsOnItsOwn) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(5);  // in place of a hang
    (void)stop_on_signals();
    std::exit(7);  // joins the thread behind it
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Stopping, SleepsTheWholeTimeWhenNobodyAsks) {
  EXPECT_TRUE(sleep_for(0.01, {}));
  EXPECT_TRUE(sleep_for(-5, {}));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(sleep_for(1e300, stop.get_token()));
}

}  // namespace
}  // namespace aerie
