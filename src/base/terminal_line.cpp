#include "base/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace aerie {
namespace {

std::recursive_mutex mutex;
std::string shown;

// As much of the text as fits, by characters: half of one would show as a blot.
std::string cut_to(const std::string& text, int columns) {
  size_t end = 0;
  for (int used = 0; end < text.size(); ++end) {
    const bool begins_character = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins_character && ++used > columns) break;
  }
  return text.substr(0, end);
}

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
  shown = cut_to(text, columns() - 1);
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
