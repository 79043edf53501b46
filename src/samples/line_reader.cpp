#include "samples/line_reader.h"

#include <algorithm>

#include "base/text.h"

namespace aerie {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

Result<LineReader> LineReader::open(FileSystem& fs, const std::string& path, Cursor from, uint64_t max_line_bytes) {
  TRY(auto file, fs.open(path));
  if (from.offset_bytes > file->size_bytes())
    return invalid(path + " is " + std::to_string(file->size_bytes()) + " bytes long, but reading it should go on at " +
                   std::to_string(from.offset_bytes) + "; it is not the file that was read before");
  if (from.offset_bytes > 0) {
    std::byte before{};
    CHECKED(file->read_at(from.offset_bytes - 1, {&before, 1}));
    if (before != std::byte{'\n'} && from.offset_bytes != file->size_bytes())
      return invalid(path + ": no line starts at byte " + std::to_string(from.offset_bytes) +
                     ", where reading should go on; it is not the file that was read before");
  }
  return LineReader(std::move(file), from, max_line_bytes);
}

Result<bool> LineReader::read_more() {
  const uint64_t left = file_->size_bytes() - read_until_;
  if (left == 0) return false;
  // Given lines are dropped only here, so that their views stay valid until the next call and moving stays rare.
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old = buffer_.size();
  const auto more = static_cast<size_t>(std::min<uint64_t>(left, std::max(kChunkBytes, old)));
  buffer_.resize(old + more);
  CHECKED(file_->read_at(read_until_, {reinterpret_cast<std::byte*>(buffer_.data() + old), more}));
  read_until_ += more;
  return true;
}

Status LineReader::pass_over_long_line() {
  for (;;) {
    const size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos) {
      cursor_.offset_bytes += end + 1 - begin_;
      begin_ = end + 1;
      break;
    }
    cursor_.offset_bytes += buffer_.size() - begin_;
    buffer_.clear();
    begin_ = 0;
    TRY(const bool more, read_more());
    if (!more) break;
  }
  ++cursor_.line;
  return invalid(place() + ": the line is longer than " + bytes_text(max_line_bytes_) + ", the most a sample may have");
}

Result<std::optional<std::string_view>> LineReader::next() {
  line_offset_ = cursor_.offset_bytes;
  size_t searched = 0;  // bytes of this line that hold no line end
  size_t end = std::string::npos;
  for (;;) {
    end = buffer_.find('\n', begin_ + searched);
    const size_t length = (end == std::string::npos ? buffer_.size() : end) - begin_;
    if (length > max_line_bytes_) {
      CHECKED(pass_over_long_line());
    }
    if (end != std::string::npos) break;
    searched = length;
    TRY(const bool more, read_more());
    if (more) continue;
    if (length == 0) return std::optional<std::string_view>();
    end = buffer_.size();
    break;
  }
  terminated_ = end < buffer_.size();
  std::string_view line(buffer_.data() + begin_, end - begin_);
  begin_ = end + (terminated_ ? 1 : 0);
  cursor_.offset_bytes += line.size() + (terminated_ ? 1 : 0);
  ++cursor_.line;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_offset_ == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return std::optional<std::string_view>(line);
}

}  // namespace aerie
