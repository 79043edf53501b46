// Private to the tensor room: one file made of several pieces, written whole or not at all.
//
// The pieces are borrowed for the call. Safe from several threads for different paths. Fails as the file system does;
// the temporary file is removed then and an existing file at `path` is untouched.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace aerie {

// Temporary name in the same folder, write, sync, close, rename, folder sync.
Status write_parts_atomically(FileSystem& fs, const std::string& path,
                              const std::vector<std::span<const std::byte>>& parts);

}  // namespace aerie
