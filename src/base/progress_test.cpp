// The progress bar where a person sees it: on a terminal of 60 columns, and on a stderr that is none.
//
// Whether stderr is a terminal is asked once a process, so each case runs in a program of its own ("threadsafe").
#include "base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace aerie {
namespace {

using testing::AllOf;
using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::Not;

constexpr int kColumns = 60;

// A minute of work whose line is longer than the terminal is wide, with characters of two bytes.
void work() {
  FakeClock clock;
  Progress progress({"extract", "Sätze", 20, 0, "tokens"}, nullptr, clock);
  progress.facts({{"not_on_disk_yet", 12}, {"prüfsumme", "äöüäöüäöüäöüäöüäöüäöü"}});
  for (int i = 0; i < 20; ++i) {
    clock.advance(3);
    progress.advance(1, 100);
  }
  progress.finish("");
}

// What work() sends to a terminal; small enough for its buffer, so it may be read afterwards.
std::string shown_on_a_terminal() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return "no pseudo terminal";
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  const winsize size{24, kColumns, 0, 0};
  if (terminal < 0 || ::ioctl(terminal, TIOCSWINSZ, &size) != 0) return "no terminal";
  const int before = ::dup(STDERR_FILENO);
  ::dup2(terminal, STDERR_FILENO);
  work();
  ::dup2(before, STDERR_FILENO);
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  std::string shown(1 << 16, '\0');
  size_t length = 0;
  for (ssize_t got; (got = ::read(master, shown.data() + length, shown.size() - length)) > 0;)
    length += static_cast<size_t>(got);
  return shown.substr(0, length);
}

// Empty when all of it stood on one line that was drawn again and again and was left at the end.
std::string wrong_with(const std::string& shown) {
  int column = 0, widest = 0, draws = 0;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] == '\r') {
      column = 0;
    } else if (shown.compare(i, 3, "\033[K") == 0) {
      if (column != 0) return "the line is cleared from its middle";
      i += 2, ++draws;
    } else if (shown[i] == '\n') {
      if (i + 1 != shown.size()) return "a line ends before the last";
    } else if (static_cast<unsigned char>(shown[i]) < 0x20) {
      return "a control character";
    } else if ((static_cast<unsigned char>(shown[i]) & 0xC0) != 0x80) {
      widest = std::max(widest, ++column);
    }
  }
  if (!shown.ends_with("\n")) return "no line end at the end";
  if (draws < 20) return "drawn " + std::to_string(draws) + " times";
  // A full line would put the cursor of some terminals on the next one.
  if (widest != kColumns - 1) return "widest line " + std::to_string(widest);
  return "";
}

[[noreturn]] void judge_terminal() {
  const std::string shown = shown_on_a_terminal(), wrong = wrong_with(shown);
  std::fprintf(stderr, "[%s]\n%s", wrong.c_str(), wrong.empty() ? "" : shown.c_str());
  std::exit(wrong.empty() ? 0 : 1);
}

[[noreturn]] void work_and_end() {
  work();
  std::exit(0);
}

TEST(ProgressBar, IsRedrawnOnOneLineOfATerminalAndNeverWraps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(judge_terminal(), ExitedWithCode(0), HasSubstr("[]"));
}

TEST(ProgressBar, IsPlainLinesWhereStderrIsNoTerminal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(work_and_end(), ExitedWithCode(0),
              AllOf(HasSubstr("extract  "), HasSubstr("20 Sätze"), Not(HasSubstr("\033")), Not(HasSubstr("\r"))));
}

}  // namespace
}  // namespace aerie
