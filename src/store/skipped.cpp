#include "store/skipped.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace aerie {
namespace {

// The id of a line, or empty when the line is not one of ours.
std::string id_of(std::string_view line) {
  const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (!json.is_object()) return "";
  const auto id = json.find("id");
  return id != json.end() && id->is_string() ? id->get<std::string>() : "";
}

bool any_line_of_ours(std::string_view text) {
  const auto lines = split(text, '\n');
  return std::any_of(lines.begin(), lines.end(), [](std::string_view line) { return !id_of(line).empty(); });
}

}  // namespace

Result<SkippedList> SkippedList::open(FileSystem& fs, const std::string& store_path) {
  SkippedList list(fs, store_path + "/skipped.jsonl");
  auto text = read_file(fs, list.path_);
  if (!text) {
    if (text.error().code == Code::kNotFound) return list;
    return std::move(text).error();
  }
  size_t at = 0;
  for (int line_number = 1; at < text->size(); ++line_number) {
    const size_t end = text->find('\n', at);
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    std::string id = end == std::string::npos ? "" : id_of(line);
    if (id.empty()) {
      // Only the last line can be torn: each one was synced before the next was begun. Torn bytes may hold line ends
      // of their own, so what counts is that no whole line follows.
      if (any_line_of_ours(std::string_view(*text).substr(std::min(end, text->size())))) {
        return corrupt(list.path_ + ", line " + std::to_string(line_number) +
                       " is not {\"id\": ..., \"reason\": ...}; mend or remove the line");
      }
      list.rewrite_ = true;
      break;
    }
    list.ids_.push_back(std::move(id));
    list.text_.append(line).push_back('\n');
    at = end + 1;
  }
  return list;
}

Status SkippedList::append(const std::string& id, const std::string& reason) {
  const std::string line = JsonObject().add({"id", id}).add({"reason", reason}).text() + "\n";
  Status status = rewrite_ ? write_file_atomically(*fs_, path_, text_ + line) : append_line(line);
  if (!status) {
    file_.reset();
    rewrite_ = true;
    return status;
  }
  if (rewrite_) file_.reset();
  rewrite_ = false;
  text_ += line;
  ids_.push_back(id);
  return ok_status();
}

Status SkippedList::append_line(const std::string& line) {
  if (!file_) {
    TRY(file_, fs_->create(path_, Create::kAppend));
    CHECKED(fs_->sync_folder(folder_of(path_)));
  }
  CHECKED(file_->write(as_bytes(line)));
  return file_->sync();
}

}  // namespace aerie
