// Private to the store room: the right to write a store, held by one process of all machines that share the folder.
//
// An flock on <store>/lock: it ends with the process, whatever ends it. The file's text names the holder for people.
// Move-only; released by the destructor. A lock that another holds is kUnavailable and says who; nothing waits.
#pragma once

#include <string>

#include "base/result.h"

namespace aerie {

class StoreLock {
 public:
  // Holds nothing: for a simulated file system, which only one process ever sees.
  StoreLock() = default;
  static Result<StoreLock> take(const std::string& store_path);
  StoreLock(StoreLock&& other) noexcept;
  StoreLock& operator=(StoreLock&& other) noexcept;
  ~StoreLock();

 private:
  int fd_ = -1;
};

}  // namespace aerie
