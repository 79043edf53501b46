#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace aerie {
namespace {

constexpr double kAfterKill_s = 2;    // a process that KILL does not end within this hangs in the kernel
constexpr double kLastWords_s = 0.2;  // for pipes that someone outside the group still holds

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return from_errno(errno, "making a pipe to a child process");
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

// The C strings that posix_spawn wants; they borrow the texts.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!options.environment.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : options.environment)
    if (value) all.push_back(name + "=" + *value);
  return all;
}

Error not_started(int error_number, const ChildOptions& options) {
  const std::string& program = options.argv.front();
  if (!options.folder.empty() && ::access(options.folder.c_str(), X_OK) != 0)
    return invalid("cannot start " + program + " in folder " + options.folder + ": " + std::strerror(errno));
  if (error_number == ENOENT)
    return not_found("there is no program " + program + (program.find('/') == std::string::npos ? " in PATH" : "") +
                     ": install it or correct its name");
  return from_errno(error_number, "starting " + program);
}

// Starts the child in a process group of its own.
Result<pid_t> spawn(const ChildOptions& options, const Fd& in, const Fd& out, const Fd& err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  if (in.open())
    posix_spawn_file_actions_adddup2(&actions, in.get(), 0);
  else
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.get(), 2);
  // Libraries open files without CLOEXEC.
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> argv = options.argv, environment = environment_of(options);
  pid_t pid = 0;
  const int error_number = ::posix_spawnp(&pid, argv.front().c_str(), &actions, &attributes, pointers(argv).data(),
                                          pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error_number != 0) return not_started(error_number, options);
  return pid;
}

// One child from its start to its end.
class Run {
 public:
  explicit Run(const ChildOptions& options) : options_(options), deadline_(Deadline::after(options.timeout_s)) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    if (!reaped_ && pid_ > 0) ::kill(-pid_, SIGKILL);
  }

  Status start() {
    TRY(Pipe in, make_pipe());
    TRY(Pipe out, make_pipe());
    TRY(Pipe err, make_pipe());
    wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.open()) return from_errno(errno, "making an eventfd");
    if (options_.stdin_text.empty()) in = Pipe{};
    TRY(pid_, spawn(options_, in.read, out.write, err.write));
    // By number: the header of glibc 2.36 declares pidfd_open() for C only.
    pidfd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!pidfd_.open()) return from_errno(errno, "watching process " + std::to_string(pid_));
    in_ = std::move(in.write);
    out_ = std::move(out.read);
    err_ = std::move(err.read);
    for (const Fd* fd : {&in_, &out_, &err_})
      if (fd->open()) ::fcntl(fd->get(), F_SETFL, ::fcntl(fd->get(), F_GETFL) | O_NONBLOCK);
    return ok_status();
  }

  Result<ChildResult> finish() {
    const double began_s = real_clock().monotonic_s();
    const std::stop_callback on_stop(options_.stop, [this] {
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    });
    if (!until_exit(deadline_, true)) {
      result_.timed_out = !cancelled_;
      CHECKED(end_it());
    }
    // The child is a zombie until it is reaped, so its group's number cannot have become another's: whom it left behind
    // in the group goes now.
    ::kill(-pid_, SIGKILL);
    const Deadline last_words = Deadline::after(kLastWords_s);
    while ((out_.open() || err_.open()) && !last_words.expired()) step(last_words, false, false);
    if (out_.open() || err_.open()) result_.cut = true;
    CHECKED(reap());
    result_.wall_s = real_clock().monotonic_s() - began_s;
    if (cancelled_) return cancelled("asked to stop while " + options_.argv.front() + " ran; it was ended");
    return std::move(result_);
  }

 private:
  // True when the child has ended, false when the deadline passed or, if that counts, the stop token was used.
  bool until_exit(const Deadline& deadline, bool heed_stop) {
    while (!exited_) {
      if (heed_stop && options_.stop.stop_requested()) {
        cancelled_ = true;
        return false;
      }
      if (deadline.expired()) return false;
      step(deadline, true, heed_stop);
    }
    return true;
  }

  Status end_it() {
    if (options_.grace_s > 0) {
      ::kill(-pid_, SIGTERM);
      if (until_exit(Deadline::after(options_.grace_s), false)) return ok_status();
    }
    ::kill(-pid_, SIGKILL);
    if (until_exit(Deadline::after(kAfterKill_s), false)) return ok_status();
    reaped_ = true;  // given up
    return timed_out("process " + std::to_string(pid_) + " (" + options_.argv.front() +
                     ") does not end by KILL: it hangs in the kernel, often on a dead disk or network mount");
  }

  // Waits for one thing to happen and deals with it.
  void step(const Deadline& deadline, bool watch_exit, bool watch_stop) {
    std::array<pollfd, 5> wait{{{in_.get(), POLLOUT, 0},
                                {out_.get(), POLLIN, 0},
                                {err_.get(), POLLIN, 0},
                                {watch_exit ? pidfd_.get() : -1, POLLIN, 0},
                                {watch_stop ? wake_.get() : -1, POLLIN, 0}}};
    const int timeout_ms = static_cast<int>(std::ceil(std::min(deadline.remaining_s(), 1e6) * 1000));
    if (::poll(wait.data(), wait.size(), timeout_ms) <= 0) return;
    if (wait[0].revents != 0) feed();
    if (wait[1].revents != 0) take(out_, result_.out);
    if (wait[2].revents != 0) take(err_, result_.err);
    if (wait[3].revents != 0) exited_ = true;
  }

  void feed() {
    const std::string& text = options_.stdin_text;
    const ssize_t written = write_without_sigpipe(text.data() + fed_, text.size() - fed_);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written > 0) fed_ += static_cast<size_t>(written);
    if (written < 0 || fed_ == text.size()) in_.close();  // a child that does not read its input is not in error
  }

  // Writing to a child that closed its input raises SIGPIPE, which ends a program that did not choose otherwise.
  ssize_t write_without_sigpipe(const char* data, size_t size) {
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const ssize_t written = ::write(in_.get(), data, size);
    const int error_number = errno;
    const timespec at_once{};
    if (written < 0 && error_number == EPIPE && sigismember(&pending, SIGPIPE) == 0)
      ::sigtimedwait(&pipe, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error_number;
    return written;
  }

  void take(Fd& from, std::string& into) {
    std::array<char, 1 << 16> block;
    const ssize_t got = ::read(from.get(), block.data(), block.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      from.close();
      return;
    }
    const size_t room = options_.output_cap_bytes - std::min(options_.output_cap_bytes, into.size());
    into.append(block.data(), std::min(room, static_cast<size_t>(got)));
    if (static_cast<size_t>(got) > room) result_.cut = true;
  }

  Status reap() {
    siginfo_t how{};
    while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &how, WEXITED) != 0)
      if (errno != EINTR) return from_errno(errno, "waiting for process " + std::to_string(pid_));
    reaped_ = true;
    if (how.si_code == CLD_EXITED)
      result_.exit_status = how.si_status;
    else
      result_.signal = how.si_status;
    return ok_status();
  }

  const ChildOptions& options_;
  Deadline deadline_;
  Fd in_, out_, err_, pidfd_, wake_;
  pid_t pid_ = 0;
  size_t fed_ = 0;
  bool exited_ = false, reaped_ = false, cancelled_ = false;
  ChildResult result_;
};

}  // namespace

std::string ChildResult::how_it_ended() const {
  if (timed_out) return "not done after " + std::to_string(std::llround(wall_s)) + " s, so it was ended";
  if (signal != 0) return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  return "exit status " + std::to_string(exit_status);
}

Result<ChildResult> run_child(const ChildOptions& options) {
  if (options.argv.empty()) return invalid("a child process needs the name of a program");
  if (options.stop.stop_requested()) return cancelled("asked to stop before " + options.argv.front() + " was started");
  Run run(options);
  CHECKED(run.start());
  return run.finish();
}

}  // namespace aerie
