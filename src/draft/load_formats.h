// The readers behind load_draft(). Inner header of the room.
#pragma once

#include <string>

#include "draft/load.h"

namespace aerie::layout {

Result<LoadedDraft> load_hf(FileSystem& fs, const std::string& folder, int target_layer_count);
Result<LoadedDraft> load_gguf(const std::string& path);

}  // namespace aerie::layout
