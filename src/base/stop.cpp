#include "base/stop.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace aerie {
namespace {

int signal_fd = -1;
volatile sig_atomic_t signals_seen = 0;

void wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(signal_fd, &one, sizeof one);
}

// Runs inside a signal handler: only what is async-signal-safe.
void on_signal(int) {
  const int error_number = errno;
  signals_seen = signals_seen + 1;
  if (signals_seen > 1) _exit(130);
  wake();
  errno = error_number;
}

// A stop_source must not be touched inside a handler, so a thread passes the wish on. It lives until the program ends.
struct Relay {
  std::stop_source source;
  std::atomic<bool> program_ends = false;
  std::jthread thread;

  Relay() {
    signal_fd = ::eventfd(0, EFD_CLOEXEC);
    thread = std::jthread([this] {
      uint64_t count = 0;
      while (::read(signal_fd, &count, sizeof count) < 0 && errno == EINTR) continue;
      if (!program_ends) source.request_stop();
    });
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    // A closed pipe or connection is an error of write(), not the end of the program.
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~Relay() {
    program_ends = true;
    wake();  // ends the thread, which jthread then joins
  }
};

}  // namespace

std::stop_token stop_on_signals() {
  static Relay relay;
  return relay.source.get_token();
}

namespace {
constexpr double kLongest_s = 1e8;  // three years; more does not fit the clock's own unit
}

bool sleep_for(double seconds, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock<std::mutex> lock(mutex);
  condition.wait_for(lock, stop, std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongest_s)),
                     [] { return false; });
  return !stop.stop_requested();
}

}  // namespace aerie
