#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/file_errors.h"
#include "base/log.h"

namespace aerie {
namespace {

constexpr size_t kLargestWrite = 1 << 30;  // Linux writes at most 2 GiB - 4 KiB a call
constexpr std::string_view kTemporaryMark = ".tmp-";

Error failed(std::string_view verb, const std::string& path) { return file_error(errno, verb, path); }

class PosixWritable : public WritableFile {
 public:
  PosixWritable(int fd, std::string path, uint64_t end) : fd_(fd), path_(std::move(path)), end_(end) {}
  ~PosixWritable() override {
    if (fd_ >= 0) ::close(fd_);
  }
  const std::string& path() const override { return path_; }

  Status write(std::span<const std::byte> bytes) override { return write_at(end_, bytes); }

  Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    CHECKED(usable());
    while (!bytes.empty()) {
      const ssize_t written =
          ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kLargestWrite), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written == 0) errno = EIO;  // no file system should; without this the loop would not end
      if (written <= 0) return broken("writing");
      offset += static_cast<uint64_t>(written);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    end_ = std::max(end_, offset);
    return ok_status();
  }

  Status sync() override {
    CHECKED(usable());
    if (::fdatasync(fd_) != 0) return broken("syncing");
    return ok_status();
  }

  Status close() override {
    if (closed_) return ok_status();
    CHECKED(usable());
    if (::close(std::exchange(fd_, -1)) != 0) return broken("closing");
    closed_ = true;
    return ok_status();
  }

 private:
  Status usable() const {
    if (broken_) return file_is_broken(path_);
    if (fd_ < 0) return file_is_closed(path_);
    return ok_status();
  }
  Error broken(std::string_view verb) {
    broken_ = true;
    return failed(verb, path_);
  }

  int fd_;
  std::string path_;
  uint64_t end_;
  bool broken_ = false, closed_ = false;
};

class PosixReadable : public ReadableFile {
 public:
  PosixReadable(int fd, std::string path, uint64_t size_bytes)
      : fd_(fd), path_(std::move(path)), size_bytes_(size_bytes) {}
  ~PosixReadable() override { ::close(fd_); }
  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return size_bytes_; }

  Status read_at(uint64_t offset, std::span<std::byte> into) override {
    while (!into.empty()) {
      const ssize_t got = ::pread(fd_, into.data(), std::min(into.size(), kLargestWrite), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed("reading", path_);
      if (got == 0) return file_is_cut(path_, offset);
      offset += static_cast<uint64_t>(got);
      into = into.subspan(static_cast<size_t>(got));
    }
    return ok_status();
  }

 private:
  int fd_;
  std::string path_;
  uint64_t size_bytes_;
};

// Opens a plain file for reading. O_NONBLOCK, because a pipe that nobody writes would wait for ever.
Result<int> open_plain(const std::string& path, struct stat& facts) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed("opening", path);
  Error error{};
  if (::fstat(fd, &facts) != 0)
    error = failed("looking at", path);
  else if (S_ISREG(facts.st_mode))
    return fd;
  else
    error =
        invalid(path + (S_ISDIR(facts.st_mode) ? " is a folder, a file was expected"
                                               : " is no plain file (a pipe, device or socket), and one was expected"));
  ::close(fd);
  return error;
}

class PosixFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path, Create how) override {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK;  // opening a pipe that nobody reads must not wait for ever
    if (how == Create::kNew) flags |= O_EXCL;
    if (how == Create::kTruncate) flags |= O_TRUNC;
    const int fd = ::open(path.c_str(), flags, 0666);
    if (fd < 0) return failed("creating", path);
    struct stat facts {};
    if (::fstat(fd, &facts) != 0) {
      Error error = failed("looking at", path);
      ::close(fd);
      return error;
    }
    return std::unique_ptr<WritableFile>(
        std::make_unique<PosixWritable>(fd, path, how == Create::kAppend ? static_cast<uint64_t>(facts.st_size) : 0));
  }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    struct stat facts {};
    TRY(const int fd, open_plain(path, facts));
    return std::unique_ptr<ReadableFile>(
        std::make_unique<PosixReadable>(fd, path, static_cast<uint64_t>(facts.st_size)));
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return failed("looking at", path);
    return FileInfo{static_cast<uint64_t>(facts.st_size), S_ISDIR(facts.st_mode),
                    static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec)};
  }

  Result<std::vector<std::string>> list(const std::string& folder) override {
    DIR* handle = ::opendir(folder.c_str());
    if (handle == nullptr) return failed("listing", folder);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(handle)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    const int error_number = errno;
    ::closedir(handle);
    if (error_number != 0) return file_error(error_number, "listing", folder);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status make_folders(const std::string& path) override {
    for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
      const std::string part = path.substr(0, at);
      if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
        // A parent that exists may refuse mkdir with another error (read-only root, automount); only its absence
        // counts.
        const int error_number = errno;
        struct stat facts {};
        if (::stat(part.c_str(), &facts) != 0) {
          errno = error_number;
          return failed("making folder", part);
        }
      }
      if (at == std::string::npos) break;
    }
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return failed("making folder", path);
    if (!S_ISDIR(facts.st_mode)) return invalid(path + " is a file, and a folder is needed there: name another place");
    return ok_status();
  }

  Status link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) != 0) return failed("linking " + from + " to", to);
    return ok_status();
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return failed("renaming " + from + " to", to);
    return ok_status();
  }
  Status remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) return failed("removing", path);
    return ok_status();
  }
  Status sync_folder(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed("opening folder", path);
    const bool synced = ::fsync(fd) == 0;
    Error error = synced ? Error{} : failed("syncing folder", path);
    ::close(fd);
    if (!synced) return error;
    return ok_status();
  }
  Result<SpaceInfo> space(const std::string& path) override {
    struct statvfs facts {};
    if (::statvfs(path.c_str(), &facts) != 0) return failed("asking for free space at", path);
    return SpaceInfo{static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize,
                     static_cast<uint64_t>(facts.f_blocks) * facts.f_frsize};
  }
};

}  // namespace

Result<bool> FileSystem::exists(const std::string& path) {
  const auto facts = info(path);
  if (!facts && facts.error().code != Code::kNotFound) return facts.error();
  return facts.ok();
}

FileSystem& real_file_system() {
  static PosixFileSystem fs;
  return fs;
}

std::string folder_of(const std::string& path) {
  const size_t at = path.find_last_of('/');
  if (at == std::string::npos) return ".";
  return at == 0 ? "/" : path.substr(0, at);
}

std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

Result<std::string> read_file(FileSystem& fs, const std::string& path, uint64_t max_bytes) {
  TRY(const std::unique_ptr<ReadableFile> file, fs.open(path));
  if (file->size_bytes() > max_bytes)
    return invalid(path + " has " + std::to_string(file->size_bytes()) + " bytes, more than the " +
                   std::to_string(max_bytes) + " expected of such a file");
  std::string content(file->size_bytes(), '\0');
  CHECKED(file->read_at(0, {reinterpret_cast<std::byte*>(content.data()), content.size()}));
  return content;
}

namespace {

using Parts = std::vector<std::span<const std::byte>>;
enum class Durable { kYes, kNo };

Status write_whole(FileSystem& fs, const std::string& path, const Parts& parts, Durable durable) {
  TRY(const std::unique_ptr<WritableFile> file, fs.create(path, Create::kTruncate));
  for (const auto& part : parts)
    if (!part.empty()) CHECKED(file->write(part));
  if (durable == Durable::kYes) CHECKED(file->sync());
  return file->close();
}

Status replace(FileSystem& fs, const std::string& path, const Parts& parts, Durable durable) {
  static std::atomic<uint64_t> counter{0};  // two threads may replace the same file
  const std::string temporary =
      path + std::string(kTemporaryMark) + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  Status status = write_whole(fs, temporary, parts, durable);
  if (status.ok()) status = fs.rename(temporary, path);
  if (!status.ok()) (void)fs.remove(temporary).ok();  // the first failure is the one to tell
  return status;
}

// The file that a name is a temporary of; empty when it is none.
std::string_view file_of_temporary(std::string_view name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos) return {};
  const std::string_view ending = name.substr(mark + kTemporaryMark.size());
  if (ending.empty() || ending.find_first_not_of("0123456789-") != std::string_view::npos) return {};
  return name.substr(0, mark);
}

}  // namespace

Status write_file_atomically(FileSystem& fs, const std::string& path, const Parts& parts) {
  CHECKED(replace(fs, path, parts, Durable::kYes));
  return fs.sync_folder(folder_of(path));
}

Status write_file_atomically(FileSystem& fs, const std::string& path, std::string_view content) {
  return write_file_atomically(fs, path, Parts{as_bytes(content)});
}

Status replace_file(FileSystem& fs, const std::string& path, std::string_view content) {
  return replace(fs, path, {as_bytes(content)}, Durable::kNo);
}

bool is_temporary_of(std::string_view name, std::string_view file_name) {
  return !file_name.empty() && file_of_temporary(name) == file_name;
}

Status remove_temporaries(FileSystem& fs, const std::string& folder) {
  TRY(const std::vector<std::string> names, fs.list(folder));
  for (const std::string& name : names) {
    if (file_of_temporary(name).empty()) continue;
    if (Status removed = fs.remove(folder + "/" + name); !removed.ok() && removed.error().code != Code::kNotFound)
      return removed;
  }
  return ok_status();
}

Status publish_new(FileSystem& fs, const std::string& temporary, const std::string& final_path) {
  CHECKED(fs.link(temporary, final_path));
  CHECKED(fs.sync_folder(folder_of(final_path)));
  // The name stands and is durable: an error now would make the caller write it again.
  if (const Status removed = fs.remove(temporary); !removed.ok())
    log_warning("temporary_stays", removed.error().what, {{"path", temporary}});
  return ok_status();
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  struct stat facts {};
  TRY(const int fd, open_plain(path, facts));
  const size_t size = static_cast<size_t>(facts.st_size);
  void* data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error_number = errno;
  ::close(fd);
  if (data == MAP_FAILED) return file_error(error_number, "mapping", path);
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace aerie
