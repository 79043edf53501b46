#include "extract/skip_file.h"

#include "base/json.h"
#include "base/text.h"

namespace aerie {

Result<SkipFile> SkipFile::open(FileSystem& fs, const std::string& path) {
  std::unordered_set<std::string> lines;
  bool torn = false;
  TRY(const bool there, fs.exists(path));
  if (there) {
    TRY(const std::string content, read_file(fs, path));
    for (const std::string_view line : split(content, '\n')) lines.emplace(line);
    torn = !content.empty() && content.back() != '\n';
  }
  TRY(auto file, fs.create(path, Create::kAppend));
  // A killed run's last line stays as it is, on a line of its own: this file is for people.
  if (torn) CHECKED(file->write(as_bytes("\n")));
  CHECKED(fs.sync_folder(folder_of(path)));
  return SkipFile(std::move(file), std::move(lines));
}

Status SkipFile::add(const std::string& stage, const std::string& id, const std::string& reason) {
  std::string line = JsonObject().add({"stage", stage}).add({"id", id}).add({"reason", reason}).text();
  if (lines_.contains(line)) return ok_status();
  CHECKED(file_->write(as_bytes(line + "\n")));
  CHECKED(file_->sync());
  lines_.insert(std::move(line));
  return ok_status();
}

}  // namespace aerie
