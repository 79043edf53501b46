#include "base/stop.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace aerie {
namespace {

int signal_fd = -1;
volatile sig_atomic_t signals_seen = 0;

// Runs inside a signal handler: only what is async-signal-safe.
void on_signal(int) {
  signals_seen = signals_seen + 1;
  if (signals_seen > 1) _exit(130);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(signal_fd, &one, sizeof one);
}

// A stop_source must not be touched inside a handler, so a thread passes the wish on. It lives as long as the program
// and looks up every 200 ms whether the program ends.
struct Relay {
  std::stop_source source;
  std::jthread thread;

  Relay() {
    signal_fd = ::eventfd(0, EFD_CLOEXEC);
    thread = std::jthread([this](std::stop_token end) {
      while (!end.stop_requested()) {
        pollfd wait{signal_fd, POLLIN, 0};
        if (::poll(&wait, 1, 200) <= 0) continue;
        source.request_stop();
        return;
      }
    });
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
  }
};

}  // namespace

std::stop_token stop_on_signals() {
  static Relay relay;
  return relay.source.get_token();
}

bool sleep_for(double seconds, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock<std::mutex> lock(mutex);
  condition.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return !stop.stop_requested();
}

}  // namespace aerie
