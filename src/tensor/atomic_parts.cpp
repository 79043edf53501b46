#include "tensor/atomic_parts.h"

namespace aerie {
namespace {

Status write_parts(FileSystem& fs, const std::string& path, const std::vector<std::span<const std::byte>>& parts) {
  TRY(auto file, fs.create(path, Create::kTruncate));
  for (const auto& part : parts) {
    if (!part.empty()) CHECKED(file->write(part));
  }
  CHECKED(file->sync());
  return file->close();
}

}  // namespace

Status write_parts_atomically(FileSystem& fs, const std::string& path,
                              const std::vector<std::span<const std::byte>>& parts) {
  const std::string temporary = path + ".tmp";
  Status status = write_parts(fs, temporary, parts);
  if (status) status = fs.rename(temporary, path);
  if (!status) {
    // The first failure is the one to report; a temporary file that stays is overwritten by the next attempt.
    (void)fs.remove(temporary);
    return status;
  }
  return fs.sync_folder(folder_of(path));
}

}  // namespace aerie
