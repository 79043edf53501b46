#include "base/child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/clock.h"
#include "base/text.h"

namespace aerie {
namespace {

using testing::HasSubstr;

ChildOptions shell(const std::string& script) {
  ChildOptions options;
  options.argv = {"sh", "-c", script};
  options.timeout_s = 10;
  return options;
}

ChildResult run(const ChildOptions& options) {
  auto result = run_child(options);
  EXPECT_TRUE(result.ok()) << result.error().what;
  return result ? *std::move(result) : ChildResult{};
}

bool process_lives(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(in)), {});
  const size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z';
}

// A group's processes end a moment after the signal.
bool ends_soon(int pid) {
  const Deadline deadline = Deadline::after(2);
  while (process_lives(pid) && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return !process_lives(pid);
}

TEST(Child, HandsBackOutputErrorsAndExitStatusApart) {
  const ChildResult result = run(shell("echo out; echo err >&2; exit 7"));
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.exit_status, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.how_it_ended(), "exit status 7");
  EXPECT_TRUE(run(shell("true")).ok());
}

TEST(Child, GetsTextLargerThanAPipeOnItsInput) {
  ChildOptions options = shell("cat");
  options.stdin_text = std::string(300'000, 'x') + "end";
  EXPECT_EQ(run(options).out, options.stdin_text);
}

TEST(Child, SeesAnEmptyInputWhenThereIsNone) { EXPECT_EQ(run(shell("cat; echo done")).out, "done\n"); }

TEST(Child, MayLeaveItsInputUnread) {
  ChildOptions options = shell("exec true");
  options.stdin_text = std::string(1'000'000, 'x');
  struct sigaction before {
  }, normal{};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &normal, &before);
  EXPECT_TRUE(run(options).ok());
  sigaction(SIGPIPE, &before, nullptr);
}

TEST(Child, RunsInItsFolderWithItsVariables) {
  ChildOptions options = shell("pwd; echo \"$AERIE_CHILD ${HOME-none}\"");
  options.folder = "/";
  options.environment = {{"AERIE_CHILD", "a b"}, {"HOME", std::nullopt}};
  EXPECT_EQ(run(options).out, "/\na b none\n");
}

TEST(Child, HasNoOtherFileOfOursOpen) {
  const int leaky = ::open("/dev/null", O_RDONLY);  // without CLOEXEC, as many libraries do
  const int high = ::fcntl(leaky, F_DUPFD, 100);
  ASSERT_GE(high, 100);
  const ChildResult result = run(shell("ls /proc/self/fd"));
  ::close(leaky);
  ::close(high);
  EXPECT_EQ(result.out, "0\n1\n2\n3\n") << "3 is the folder that ls reads";
}

TEST(Child, HasSignalsAtTheirDefaults) {
  struct sigaction before {
  }, ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  sigset_t blocked, mask_before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &mask_before);
  const ChildResult result = run(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  sigaction(SIGPIPE, &before, nullptr);
  // Of the ignored ones, 32 and 33 belong to the C library itself.
  EXPECT_THAT(result.out, testing::MatchesRegex("SigBlk:\t0+\nSigIgn:\t0000000[01][08]0000000\n"));
}

TEST(Child, IsEndedAtItsDeadline) {
  ChildOptions options = shell("echo begun; sleep 100");
  options.timeout_s = 0.2;
  const ChildResult result = run(options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.out, "begun\n");
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_LT(result.wall_s, 2);
  EXPECT_THAT(result.how_it_ended(), HasSubstr("not done after"));
}

TEST(Child, IsKilledWhenItDoesNotHeedTerm) {
  ChildOptions options = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
  options.timeout_s = 0.2;
  options.grace_s = 0.2;
  const ChildResult result = run(options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(result.wall_s, 3);
}

TEST(Child, TakesItsWholeGroupWithIt) {
  ChildOptions options = shell("sleep 100 & echo $!; wait");
  options.timeout_s = 0.2;
  const ChildResult late = run(options);
  EXPECT_TRUE(ends_soon(std::stoi(late.out)));
  const ChildResult done = run(shell("sleep 100 & echo $!"));
  EXPECT_TRUE(done.ok()) << done.how_it_ended();
  EXPECT_LT(done.wall_s, 2) << "who keeps the pipes open must not hold us up";
  EXPECT_TRUE(ends_soon(std::stoi(done.out)));
}

TEST(Child, DoesNotWaitForSomeoneOutsideTheGroupWhoHoldsThePipes) {
  const std::string left = testing::TempDir() + "aerie_child_left_" + std::to_string(::getpid());
  const ChildResult result = run(shell("setsid sh -c 'echo $$ >" + left + "; exec sleep 3' & while [ ! -s " + left +
                                       " ]; do sleep 0.01; done; echo here"));
  EXPECT_EQ(result.out, "here\n");
  EXPECT_TRUE(result.cut);
  EXPECT_LT(result.wall_s, 2.5);
  ::unlink(left.c_str());
}

TEST(Child, MaySayOnlyAsMuchAsTheCapAndIsStillRunToItsEnd) {
  ChildOptions options = shell("head -c 3000000 /dev/zero; echo end >&2");
  options.output_cap_bytes = 1000;
  const ChildResult result = run(options);
  EXPECT_EQ(result.out.size(), 1000u);
  EXPECT_TRUE(result.cut);
  EXPECT_EQ(result.err, "end\n");
  EXPECT_TRUE(result.ok());
}

TEST(Child, IsStoppedByAToken) {
  std::stop_source stop;
  ChildOptions options = shell("sleep 100");
  options.stop = stop.get_token();
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });
  const Deadline deadline = Deadline::after(3);
  const auto result = run_child(options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kCancelled);
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(run_child(options).error().code, Code::kCancelled) << "and is not started after that";
}

TEST(Child, TellsOfASignalThatEndedIt) {
  const ChildResult result = run(shell("kill -SEGV $$"));
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_THAT(result.how_it_ended(), HasSubstr("killed by signal 11"));
}

TEST(Child, ThatDoesNotExistIsSaidSo) {
  ChildOptions options;
  options.argv = {"no-such-program-of-aerie"};
  const auto absent = run_child(options);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().what, HasSubstr("there is no program no-such-program-of-aerie in PATH"));
  options.argv = {"/etc/passwd"};
  EXPECT_EQ(run_child(options).error().code, Code::kInvalid);
  options.argv = {"sh"};
  options.folder = "/no/such/folder";
  EXPECT_THAT(run_child(options).error().what, HasSubstr("in folder /no/such/folder"));
}

TEST(Child, LeavesNoDescriptorsAndNoZombies) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  for (int i = 0; i < 20; ++i) run(shell("exit 1"));
  EXPECT_EQ(descriptors(), before);
  const ChildResult zombies = run(shell("grep -l \"^PPid:[[:space:]]" + std::to_string(::getpid()) +
                                        "$\" /proc/[0-9]*/status 2>/dev/null | xargs grep -h '^State' | grep -c Z"));
  EXPECT_EQ(zombies.out, "0\n");
}

}  // namespace
}  // namespace aerie
