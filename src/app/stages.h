// The pipeline's engine: stages in order, each recorded, so that a run skips what is done and goes on with what is not.
//
//   <run>/stages/<name>.json   {"state": "running" | "done" | "interrupted" | "failed", "seconds", "sentence", "settings",
//                               "outputs", "made", "after", "more", ...}
//
// A stage is done only when its record says so and its outputs are still there. A stage whose settings have changed since,
// or whose input was made again since, is kInvalid, naming what changed: redoing work silently would cost days, keeping it
// silently would lie. A stage that only adds to what is there (`grows`) goes on instead where nothing made before is wrong:
// more input, or a setting that says how much. redo() moves a stage's results (and those of the stages after it) aside,
// never removes them. One thread. Private to app.
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
  Fields facts = {};                 // numbers for the report
  bool more = false;                 // ended in order before all was made (a time limit); asked for by name, it goes on
  bool nothing_new = false;          // the results are the ones that were there
};

struct Stage {
  std::string name;
  std::string purpose;             // "asks the target to answer the prompts"
  std::string settings = {};       // lines "room.key = value" that decide the result
  std::vector<std::string> work = {};  // paths of its results, which redo() moves aside
  std::function<Result<StageOutcome>(std::stop_token)> run;
  std::string after = {};          // the stage whose result it reads; empty = its input is given
  std::string how_much = {};       // of a stage that grows: more lines, which say only how much is made
  bool grows = false;
  bool always = false;             // cheap, and looks at everything else: done again each time
};

struct StageRecord {
  std::string state;     // running, done, interrupted, failed
  double seconds = 0;    // spent in this stage over all attempts that ended in order
  std::string sentence;
  std::string settings;  // with how_much
  std::vector<std::string> outputs;
  Fields facts;
  std::string made;      // changes whenever the stage makes something new
  std::string after;     // `made` of the stage that it read
  bool more = false;
};

Result<std::optional<StageRecord>> read_stage_record(FileSystem& fs, const RunFolder& run, const std::string& name);

// Runs the stages named by `only` (empty = all) in order and stops at the first that fails.
Status run_stages(FileSystem& fs, RunFolder& run, const std::vector<Stage>& stages, const std::vector<std::string>& only,
                  std::stop_token stop);

// Moves the work and the record of `from` and of all later stages into <run>/old/<time>/. What lies outside the run
// folder stays in its own, under its name with ".old-<time>".
Status redo(FileSystem& fs, RunFolder& run, const std::vector<Stage>& stages, const std::string& from);

}  // namespace aerie
