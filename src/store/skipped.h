// Private to the store room: skipped.jsonl, the samples that cannot be extracted, with the reason.
//
// One JSON object a line, synced before append() returns. A torn last line (a kill, a full disk) is dropped when the
// file is opened; a bad line before it is kCorrupt with its number. One thread. After a failed append the next one
// writes the whole file anew, because what a failed file holds is unknown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace aerie {

class SkippedList {
 public:
  static Result<SkippedList> open(FileSystem& fs, const std::string& store_path);
  const std::vector<std::string>& ids() const { return ids_; }
  Status append(const std::string& id, const std::string& reason);

 private:
  SkippedList(FileSystem& fs, std::string path) : fs_(&fs), path_(std::move(path)) {}
  Status append_line(const std::string& line);

  FileSystem* fs_;
  std::string path_;
  std::string text_;  // whole lines that are known to be on the disk
  std::vector<std::string> ids_;
  std::unique_ptr<WritableFile> file_;  // null until the first append
  bool rewrite_ = false;                // the file holds more than text_
};

}  // namespace aerie
