// Files of one record a line that are only ever added to, such as events.jsonl. Private to base.
//
// The caller holds the folder alone. Fails as files do.
#pragma once

#include <memory>
#include <string>

#include "base/file.h"

namespace aerie {

// Opens for appending. What a killed process left of a last line, never reported as written, is cut off, so that every
// line of the file is whole.
Result<std::unique_ptr<WritableFile>> open_line_file(const std::string& path);

}  // namespace aerie
