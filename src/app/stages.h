// The pipeline's engine: stages in order, each recorded when done, so that a run skips what is done and resumes what is not.
//
//   <run>/stages/<name>.json   {"state": "done" | "interrupted" | "failed", "seconds", "sentence", "settings", "outputs", ...}
//
// A stage is done only when its record says so and its outputs are still there. A done stage whose settings have changed
// since is kInvalid, naming the setting and both values: redoing work silently would cost days, keeping it silently
// would lie. redo() moves a stage's outputs (and those of the stages after it) aside, never removes them.
// One thread. Private to app.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/run_folder.h"

namespace aerie {

struct StageOutcome {
  std::string sentence;              // what was made, for a person
  std::vector<std::string> outputs;  // paths that must exist for the stage to count as done
  Fields facts;                      // numbers for the report
};

struct Stage {
  std::string name;
  std::string purpose;                // "asks the target to answer the prompts"
  std::string settings;               // lines "room.key = value" that decide the result; compared when it is done
  std::vector<std::string> work;      // paths inside the run folder that redo() moves aside
  std::function<Result<StageOutcome>(std::stop_token)> run;
  bool always = false;                // cheap, and looks at everything else: done again each time
};

struct StageRecord {
  std::string state;     // done, interrupted, failed
  double seconds = 0;    // spent in this stage over all attempts that ended in order
  std::string sentence;
  std::string settings;
  std::vector<std::string> outputs;
  Fields facts;
};

Result<std::optional<StageRecord>> read_stage_record(FileSystem& fs, const RunFolder& run, const std::string& name);

// Runs the stages named by `only` (empty = all) in order and stops at the first that fails.
Status run_stages(FileSystem& fs, RunFolder& run, const std::vector<Stage>& stages, const std::vector<std::string>& only,
                  std::stop_token stop);

// Moves the work and the record of `from` and of all later stages into <run>/old/<time>/.
Status redo(FileSystem& fs, RunFolder& run, const std::vector<Stage>& stages, const std::string& from);

}  // namespace aerie
