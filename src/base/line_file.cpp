#include "base/line_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/file_errors.h"

namespace aerie {
namespace {

// Where the last line feed ends, looked for from the end: such files grow to gigabytes.
Result<uint64_t> end_of_whole_lines(ReadableFile& file) {
  std::vector<std::byte> block(1 << 16);
  for (uint64_t end = file.size_bytes(); end > 0;) {
    const size_t length = static_cast<size_t>(std::min<uint64_t>(block.size(), end));
    CHECKED(file.read_at(end - length, {block.data(), length}));
    for (size_t i = length; i > 0; --i)
      if (block[i - 1] == std::byte{'\n'}) return end - length + i;
    end -= length;
  }
  return uint64_t{0};
}

}  // namespace

Result<std::unique_ptr<WritableFile>> open_line_file(const std::string& path) {
  FileSystem& fs = real_file_system();
  if (const auto facts = fs.info(path); facts.ok() && facts->size_bytes > 0) {
    TRY(const std::unique_ptr<ReadableFile> file, fs.open(path));
    TRY(const uint64_t end, end_of_whole_lines(*file));
    if (end < file->size_bytes() && ::truncate(path.c_str(), static_cast<off_t>(end)) != 0)
      return file_error(errno, "cutting off the torn last line of", path);
  }
  return fs.create(path, Create::kAppend);
}

}  // namespace aerie
