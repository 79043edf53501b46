// The door of base: what every other room stands on. Include the one header you need; this list says which.
//
//   result.h      Result<T> and Status: nine codes and one sentence; TRY and CHECKED
//   clock.h       the clock, a fake one, and Deadline, the bound on every wait
//   stop.h        signals as a stop token, and sleeping that a token ends
//   file.h        files and folders behind an interface; replacing and publishing that survive crashes
//   sim_file.h    the same interface in memory, losing what was not synced; for tests
//   child.h       child processes with deadline, output cap and a group that goes as a whole
//   http.h        HTTP requests with deadline and cap
//   text.h        splitting, joining, UTF-8, nearest names
//   json.h        writing JSON
//   hash.h        SHA-256 and XXH3
//   random.h      one seeded generator, same numbers everywhere
//   config.h      fields declared once: TOML, --set, environment, help, resolved file
//   log.h         one line for people, one JSON line for machines
//   run_folder.h  the folder of a run: run.json, events.jsonl, progress.json, lock
//   progress.h    bar, lines and progress.json of committed work
//
// Private to the room: terminal_line.h, line_file.h, file_errors.h, sim_disk.h.
#pragma once

#include "base/child.h"       // IWYU pragma: export
#include "base/clock.h"       // IWYU pragma: export
#include "base/config.h"      // IWYU pragma: export
#include "base/file.h"        // IWYU pragma: export
#include "base/hash.h"        // IWYU pragma: export
#include "base/http.h"        // IWYU pragma: export
#include "base/json.h"        // IWYU pragma: export
#include "base/log.h"         // IWYU pragma: export
#include "base/progress.h"    // IWYU pragma: export
#include "base/random.h"      // IWYU pragma: export
#include "base/result.h"      // IWYU pragma: export
#include "base/run_folder.h"  // IWYU pragma: export
#include "base/sim_file.h"    // IWYU pragma: export
#include "base/stop.h"        // IWYU pragma: export
#include "base/text.h"        // IWYU pragma: export
