// The right to write something, held by one process of all machines that share the place: an flock on a file.
//
// It ends with the process, whatever ends it; the lock file stays, because removing it would let two processes lock two
// files of one name. The file's text names the holder, for people. Taking it never waits. On the real file system only: a
// simulated one is seen by one process, so who writes through a FileSystem& takes the lock when that is
// real_file_system(), and else holds a FileLock() of nothing. One thread an object; move-only; the destructor releases.
#pragma once

#include <string>

#include "base/result.h"

namespace aerie {

class FileLock {
 public:
  FileLock() = default;  // holds nothing
  // Locks the file at `path`, made if needed. kUnavailable when another holds it, with its name: "<what> is in use by
  // process 4711 on host ..."
  static Result<FileLock> take(const std::string& path, const std::string& what);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  int fd_ = -1;
};

}  // namespace aerie
