// Lines of a file, one after another, with a bound on their length and a cursor to go on from. Inside this room only.
//
// Owns the open file. One thread. A line over the bound is kInvalid and is passed over; read errors come as they are.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "samples/samples.h"

namespace aerie {

class LineReader {
 public:
  static Result<LineReader> open(FileSystem& fs, const std::string& path, Cursor from,
                                 uint64_t max_line_bytes = kMaxLineBytes);

  // The next line without its end (LF or CRLF) and without a byte order mark; valid until the next call.
  Result<std::optional<std::string_view>> next();
  Cursor cursor() const { return cursor_; }
  int64_t line() const { return cursor_.line; }        // number of the line given last, from 1
  uint64_t line_offset() const { return line_offset_; }  // where it starts
  bool terminated() const { return terminated_; }      // whether it had a line end
  uint64_t size_bytes() const { return file_->size_bytes(); }
  std::string place() const { return file_->path() + ":" + std::to_string(line()); }

 private:
  LineReader(std::unique_ptr<ReadableFile> file, Cursor from, uint64_t max_line_bytes)
      : file_(std::move(file)), cursor_(from), max_line_bytes_(max_line_bytes), read_until_(from.offset_bytes) {}
  Result<bool> read_more();
  Status pass_over_long_line();

  std::unique_ptr<ReadableFile> file_;
  Cursor cursor_;
  uint64_t max_line_bytes_;
  uint64_t read_until_;       // offset in the file of the end of buffer_
  std::string buffer_;        // holds the bytes from cursor_.offset_bytes - begin_ on
  size_t begin_ = 0;          // start of the next line in buffer_
  uint64_t line_offset_ = 0;
  bool terminated_ = false;
};

}  // namespace aerie
