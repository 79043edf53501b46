#include "base/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace aerie {
namespace {

std::recursive_mutex mutex;
std::string shown;

void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool TerminalLine::is_terminal() {
  static const bool answer = ::isatty(STDERR_FILENO) == 1;
  return answer;
}

int TerminalLine::columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void TerminalLine::show(const std::string& text) {
  if (!is_terminal()) return;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  shown = text.substr(0, static_cast<size_t>(columns() - 1));
  put("\r\033[K" + shown);
}

void TerminalLine::end() {
  if (!is_terminal()) return;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (!shown.empty()) put("\n");
  shown.clear();
}

TerminalLine::Pause::Pause() {
  mutex.lock();
  if (!shown.empty()) put("\r\033[K");
}

TerminalLine::Pause::~Pause() {
  if (!shown.empty()) put(shown);
  mutex.unlock();
}

}  // namespace aerie
