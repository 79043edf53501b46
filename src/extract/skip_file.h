// skipped.jsonl of a run folder: what a stage could not do and why. Inside this room only.
//
// One thread. add() is durable when it returned; the same stage, id and reason are written once, over runs too.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>

#include "base/file.h"

namespace aerie {

class SkipFile {
 public:
  static Result<SkipFile> open(FileSystem& fs, const std::string& path);
  Status add(const std::string& stage, const std::string& id, const std::string& reason);

 private:
  SkipFile(std::unique_ptr<WritableFile> file, std::unordered_set<std::string> lines)
      : file_(std::move(file)), lines_(std::move(lines)) {}
  std::unique_ptr<WritableFile> file_;
  std::unordered_set<std::string> lines_;
};

}  // namespace aerie
