#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/file_errors.h"
#include "base/text.h"

namespace aerie {
namespace {

std::string holder_of(int fd) {
  char text[256];
  const ssize_t got = ::pread(fd, text, sizeof text, 0);
  const std::string holder(trim(std::string_view(text, got > 0 ? static_cast<size_t>(got) : 0)));
  return holder.empty() ? "a process that has not said its name yet" : holder;
}

// For people only, so a failure to write it hurts nothing.
void name_holder(int fd) {
  char host[256] = "unknown host";
  (void)::gethostname(host, sizeof host - 1);
  const std::string text =
      "process " + std::to_string(::getpid()) + " on " + host + ", since " + utc_text(real_clock().wall_s()) + "\n";
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

Result<FileLock> FileLock::take(const std::string& path, const std::string& what) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock.fd_ < 0) return file_error(errno, "making the lock file", path);
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return file_error(errno, "locking", path);
    return unavailable(what + " is in use by " + holder_of(lock.fd_) +
                       ": wait for it to end, stop it, or name another place");
  }
  name_holder(lock.fd_);
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace aerie
