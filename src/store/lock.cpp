#include "store/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/clock.h"

namespace aerie {
namespace {

std::string holder_of(int fd) {
  char text[256];
  const ssize_t got = ::pread(fd, text, sizeof(text), 0);
  std::string holder(text, got > 0 ? static_cast<size_t>(got) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder.empty() ? "a process that has not said its name yet" : holder;
}

// For people only, so a failure to write it hurts nothing.
void name_holder(int fd) {
  char host[128] = "unknown host";
  (void)::gethostname(host, sizeof(host) - 1);
  const std::string text =
      "process " + std::to_string(::getpid()) + " on " + host + ", since " + utc_text(real_clock().wall_s()) + "\n";
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

Result<StoreLock> StoreLock::take(const std::string& store_path) {
  const std::string path = store_path + "/lock";
  StoreLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock.fd_ < 0) return from_errno(errno, "opening the store's lock " + path);
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return from_errno(errno, "locking " + path);
    return unavailable("store " + store_path + " is being written by " + holder_of(lock.fd_) +
                       "; wait for it to end, or stop it");
  }
  name_holder(lock.fd_);
  return lock;
}

StoreLock::StoreLock(StoreLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

StoreLock& StoreLock::operator=(StoreLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

StoreLock::~StoreLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace aerie
