// Files and folders behind one interface, so that a simulated disk can lose, tear and refuse writes in tests.
//
// Two implementations: real_file_system() (POSIX; lives as long as the program) and SimFileSystem (sim_file.h).
// A FileSystem may be used from several threads; one open file belongs to one thread at a time. Paths are plain
// strings; relative ones are relative to the working directory.
// Failures carry the path and errno's sentence: kFull for ENOSPC/EDQUOT, kInvalid for a read-only place.
// A failed write, sync or close means that everything since the last successful sync of that file is lost: the file
// refuses further use, and the caller writes a new one. fsync is never tried twice (docs/store.md says why).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace aerie {

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes without syncing; errors there are of no use to anyone
  virtual const std::string& path() const = 0;
  // Appends all bytes at the current end of what was written.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Writes all bytes at an offset; does not move the end used by write() unless it reaches beyond it.
  virtual Status write_at(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status sync() = 0;   // fdatasync, size included
  virtual Status close() = 0;  // idempotent after success
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  virtual uint64_t size_bytes() const = 0;  // as it was when opened
  // Fills the whole span from the offset; kCorrupt when the file ends before.
  virtual Status read_at(uint64_t offset, std::span<std::byte> into) = 0;
};

struct FileInfo {
  uint64_t size_bytes = 0;
  bool folder = false;
  double modified_wall_s = 0;
};

struct SpaceInfo {
  uint64_t free_bytes = 0;  // for an unprivileged user
  uint64_t total_bytes = 0;
};

enum class Create {
  kNew,       // kExists when the name is taken
  kTruncate,  // empties an existing file
  kAppend,    // keeps an existing file and writes at its end
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path, Create how) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  virtual Result<FileInfo> info(const std::string& path) = 0;                // kNotFound when absent
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;  // names only, sorted
  virtual Status make_folders(const std::string& path) = 0;                  // like mkdir -p
  virtual Status link(const std::string& from, const std::string& to) = 0;   // kExists when `to` is taken
  virtual Status rename(const std::string& from, const std::string& to) = 0; // replaces `to`
  virtual Status remove(const std::string& path) = 0;                        // a file or an empty folder
  virtual Status sync_folder(const std::string& path) = 0;                   // makes names in it durable
  // May block on a dead mount: call it where a wedged thread can be given up.
  virtual Result<SpaceInfo> space(const std::string& path) = 0;

  // False only when it is known that nothing is there. A disk that fails or a folder that may not be entered is an error:
  // taken for "absent", it would let work begin anew over work that is there.
  Result<bool> exists(const std::string& path);
};

FileSystem& real_file_system();

// The folder part and the last part of a path ("a/b" -> "a", "b"; "b" -> ".", "b").
std::string folder_of(const std::string& path);
std::string name_of(const std::string& path);

// The whole content; kInvalid when it is larger than max_bytes.
Result<std::string> read_file(FileSystem& fs, const std::string& path, uint64_t max_bytes = 1ull << 30);

// Replaces `path` so that after any crash either the old or the new content is there: temporary name in the same
// folder, write, sync, close, rename, folder sync. Removes the temporary file on failure; an existing file is untouched
// then. The second form writes pieces one after another, borrowed for the call: for tensors that lie about in memory.
Status write_file_atomically(FileSystem& fs, const std::string& path, std::string_view content);
Status write_file_atomically(FileSystem& fs, const std::string& path,
                             const std::vector<std::span<const std::byte>>& parts);

// Replaces `path` as a whole for everyone who reads it now, without waiting for the disk: after a power cut the file may
// be empty. For files that are written anew every second, such as progress.json.
Status replace_file(FileSystem& fs, const std::string& path, std::string_view content);

// Whether this is the name of what those three leave of a file when their process is killed ("run.json.tmp-4711-0").
bool is_temporary_of(std::string_view name, std::string_view file_name);

// Removes what they of a killed process left in a folder. Only for a folder that the caller holds alone.
Status remove_temporaries(FileSystem& fs, const std::string& folder);

// Gives a synced, closed temporary file its final name, create-if-absent: link, folder sync, remove the temporary.
// kExists when the final name is taken (the temporary file stays for the caller to judge). Once the name is durable this
// is ok: a temporary that then cannot be removed is only logged.
Status publish_new(FileSystem& fs, const std::string& temporary, const std::string& final_path);

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A whole file mapped read-only. The bytes live as long as the object. An I/O error under a mapping is SIGBUS, and so
// is a file that someone truncates: map only files that nobody changes in place.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace aerie
