#include "draft/folder.h"

#include <string_view>

#include <fmt/format.h>

namespace aerie::layout {
namespace {

// The two files of an export, and what a killed write_file_atomically or write_safetensors left of them beside them.
bool is_ours(std::string_view name) {
  for (const std::string_view our : {"config.json", "model.safetensors"}) {
    if (!name.starts_with(our)) continue;
    const std::string_view rest = name.substr(our.size());
    if (rest.empty() || rest == ".tmp") return true;
    if (rest.starts_with(".tmp-") && rest.find_first_not_of("0123456789-", 5) == rest.npos) return true;
  }
  return false;
}

// Removes the folder when it holds nothing but an export; false when something else lies there and was left alone.
Result<bool> remove_export(FileSystem& fs, const std::string& folder) {
  TRY(const auto names, fs.list(folder));
  bool whole = true;
  for (const std::string& name : names) {
    if (is_ours(name)) {
      CHECKED(fs.remove(folder + "/" + name));
    } else {
      whole = false;
    }
  }
  if (whole) CHECKED(fs.remove(folder));
  return whole;
}

}  // namespace

Result<NewFolder> NewFolder::begin(FileSystem& fs, const std::string& path, bool overwrite) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  TRY(const bool taken, fs.exists(trimmed));
  if (taken && !overwrite) {
    return exists(fmt::format("{} is there already; export under another name, or ask for overwriting", trimmed));
  }
  NewFolder folder(fs, trimmed);
  TRY(const bool left, fs.exists(folder.temporary_));
  if (left) {
    TRY(const bool cleared, remove_export(fs, folder.temporary_));
    if (!cleared) {
      return exists(
          fmt::format("{} holds files that no export wrote; move them away and export again", folder.temporary_));
    }
  }
  CHECKED(fs.make_folders(folder.temporary_));
  return folder;
}

Result<std::string> NewFolder::commit() {
  CHECKED(fs_->sync_folder(temporary_));
  const std::string old = path_ + ".old";
  TRY(const bool replaces, fs_->exists(path_));
  if (replaces) {
    TRY(const bool older, fs_->exists(old));
    if (older) {
      TRY(const bool cleared, remove_export(*fs_, old));
      if (!cleared)
        return exists(fmt::format("{} holds files that no export wrote; move them away and export again", old));
    }
    CHECKED(fs_->rename(path_, old));
  }
  CHECKED(fs_->rename(temporary_, path_));
  CHECKED(fs_->sync_folder(folder_of(path_)));
  if (!replaces) return std::string();
  TRY(const bool cleared, remove_export(*fs_, old));
  return cleared ? std::string() : fmt::format("files of others that lay in {} are in {} now", path_, old);
}

}  // namespace aerie::layout
