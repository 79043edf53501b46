// A file system in memory that forgets what was not synced: for tests of what survives a power cut, a full disk, a
// failing disk.
//
// It keeps apart what programs see and what the disk holds. A write is on the disk after sync() of the file, a name
// (created, linked, renamed, removed) after sync_folder() of its folder; close() promises nothing, and syncing a file
// says nothing about its name. crash() keeps what is on the disk and, drawn by a seed, some of the rest: 512-byte
// sectors and names, in order up to a point or any of them, with a file size that may run ahead of its data.
//
//   SimFileSystem fs;
//   for (int64_t op = 1; ; ++op) {
//     SimFileSystem disk;
//     disk.stop_at(op);                      // the machine stops before its op-th change
//     const bool done = work(disk).ok();
//     for (uint64_t seed = 0; seed < 20; ++seed) {
//       auto after = disk.after_crash(seed);
//       ... what work() reported as saved must be readable in *after ...
//     }
//     if (done) break;
//   }
//
// Safe from several threads, like every FileSystem; open files must not outlive it. The same calls and seed give the
// same result. Time stands still but for one second a change. Errors are those of the real file system, with its
// sentences.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"

namespace aerie {

class SimFileSystem : public FileSystem {
 public:
  SimFileSystem();
  ~SimFileSystem() override;

  Result<std::unique_ptr<WritableFile>> create(const std::string& path, Create how) override;
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  Status make_folders(const std::string& path) override;
  Status link(const std::string& from, const std::string& to) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_folder(const std::string& path) override;
  Result<SpaceInfo> space(const std::string& path) override;

  // --- power cuts ---------------------------------------------------------------------------------------------------
  enum class Survives {
    kSynced,  // only what was synced: the least that is promised
    kPrefix,  // and the first so many of the other changes (a file system with a journal)
    kSubset,  // and any of the other changes (no order between writes, or between names)
    kAll,     // and everything else: the process was killed, the machine was not
    kDrawn,   // one of these, by the seed
  };
  // The machine as it comes up again. after_crash() leaves this one as it is, so that many seeds can be tried.
  std::unique_ptr<SimFileSystem> after_crash(uint64_t seed, Survives what = Survives::kDrawn) const;
  // The same in place: plans are forgotten, files still open answer kInternal from then on.
  void crash(uint64_t seed, Survives what = Survives::kDrawn);

  // Changes so far: creates, writes, syncs, closes of written files, links, renames, removes, folders made and synced.
  int64_t operations() const;
  std::vector<std::string> history() const;  // one line a change, for the message of a failed test
  // From the n-th change on (1 = the first since the beginning) nothing happens any more and every call fails.
  void stop_at(int64_t operation);

  // --- refusals -----------------------------------------------------------------------------------------------------
  enum class Call {
    kCreate,
    kOpen,
    kRead,
    kWrite,
    kSync,
    kClose,
    kList,
    kMakeFolder,
    kLink,
    kRename,
    kRemove,
    kSyncFolder,
    kSpace,
    kInfo
  };
  // The n-th call of this kind from now on (1 = the next) fails with this errno. A failed write may have put a part of
  // its bytes; a failed sync loses what was not synced, and the next sync of that file "succeeds" without it, as
  // measured on ext4, xfs and btrfs.
  void fail(Call call, int64_t nth, int error_number);
  // What the page cache shows after a failed sync: the new data (ext4, xfs) or the old (btrfs).
  enum class AfterFailedSync { kShowsNew, kShowsOld };
  void set_after_failed_sync(AfterFailedSync shows);
  // A disk of this size: a write takes what fits, then ENOSPC.
  void limit_space(uint64_t total_bytes);
  void set_read_only(bool read_only);  // every change is EROFS
  // Sync and sync_folder succeed and do nothing: a disk that lies.
  void set_sync_lies(bool lies);
  // Overwrites bytes on the disk and in the cache: damage that nobody wrote.
  Status damage(const std::string& path, uint64_t offset, std::span<const std::byte> bytes);

 private:
  struct Machine;
  class Writable;
  class Readable;
  explicit SimFileSystem(std::unique_ptr<Machine> machine);

  mutable std::mutex mutex_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace aerie
