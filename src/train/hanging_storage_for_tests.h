// The real file system, on which reading hangs as on dead storage. Header-only; used by tests of this room only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/file.h"

namespace aerie::testing_store {

// Files open as always on the thread that made this; on others, every one after the first `free` hangs until release()
// (a minute at most). Never destroy one: the thread that hangs is given up, and may still run while the program ends.
class HangingStorage : public FileSystem {
 public:
  explicit HangingStorage(int free) : free_(free) {}

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    if (std::this_thread::get_id() != maker_) {
      std::unique_lock lock(mutex_);
      if (free_-- <= 0) {
        reached_ = true;
        changed_.notify_all();
        changed_.wait_for(lock, std::chrono::minutes(1), [this] { return released_; });
      }
    }
    return real_.open(path);
  }
  // Waits until a thread hangs; false when none does within half a minute.
  bool wait_until_reached() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return reached_; });
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path, Create how) override {
    return real_.create(path, how);
  }
  Result<FileInfo> info(const std::string& path) override { return real_.info(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return real_.list(folder); }
  Status make_folders(const std::string& path) override { return real_.make_folders(path); }
  Status link(const std::string& from, const std::string& to) override { return real_.link(from, to); }
  Status rename(const std::string& from, const std::string& to) override { return real_.rename(from, to); }
  Status remove(const std::string& path) override { return real_.remove(path); }
  Status sync_folder(const std::string& path) override { return real_.sync_folder(path); }
  Result<SpaceInfo> space(const std::string& path) override { return real_.space(path); }

 private:
  FileSystem& real_ = real_file_system();
  const std::thread::id maker_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  bool reached_ = false, released_ = false;
};

}  // namespace aerie::testing_store
