// The program's log: one short line for a person on stderr, one JSON line in the run folder once there is one.
//
// Safe from any thread. A log that cannot be written never fails its caller; the loss is said once on stderr.
// Lines do not tear a progress bar: the bar is cleared before and drawn again after (progress.h).
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace aerie {

enum class Level { kDebug, kInfo, kWarning, kError };

// `event` is a stable snake_case name for machines ("sample_skipped"); `sentence` is what a person reads.
void log(Level level, std::string_view event, std::string_view sentence, const Fields& fields = {});
inline void log_info(std::string_view event, std::string_view sentence, const Fields& fields = {}) {
  log(Level::kInfo, event, sentence, fields);
}
inline void log_warning(std::string_view event, std::string_view sentence, const Fields& fields = {}) {
  log(Level::kWarning, event, sentence, fields);
}
inline void log_error(std::string_view event, std::string_view sentence, const Fields& fields = {}) {
  log(Level::kError, event, sentence, fields);
}

// Lines below this level are dropped (default kInfo).
void set_log_level(Level level);
// Also appends JSON lines to this file until the next call; an empty path ends it.
Status set_log_file(const std::string& path);

}  // namespace aerie
