// A folder of files that appears whole: built under "<name>.new", then renamed.
//
// Inner header of the room. Replacing moves the old folder to "<name>.old" first, because a folder cannot be replaced
// in one step; a crash between the two leaves the old one there. Only files that a draft's export writes are ever
// removed: what else lies in an old folder stays in "<name>.old", and the sentence returned by commit() says so.
#pragma once

#include <string>

#include "base/file.h"
#include "base/result.h"

namespace aerie::layout {

class NewFolder {
 public:
  // kExists when the name is taken and must stay. Clears what an earlier, killed export left under "<name>.new".
  static Result<NewFolder> begin(FileSystem& fs, const std::string& path, bool overwrite);
  std::string file(const std::string& name) const { return temporary_ + "/" + name; }
  // Returns a note for people, or an empty text.
  Result<std::string> commit();

 private:
  NewFolder(FileSystem& fs, std::string path) : fs_(&fs), path_(std::move(path)), temporary_(path_ + ".new") {}
  FileSystem* fs_;
  std::string path_;
  std::string temporary_;
};

}  // namespace aerie::layout
