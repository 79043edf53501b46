// The pipeline: generate -> extract -> train -> export -> bench -> report, as stages over one run folder.
//
// Owns the target between stages that need it and closes it before training, so that the two never share memory. One
// thread. Stages that this binary cannot do are refused when their turn comes
// (make_draft.h). Private to app.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/settings.h"
#include "app/stages.h"

namespace aerie {

class Pipeline {
 public:
  // Both are borrowed.
  Pipeline(const Settings& settings, RunFolder& run) : settings_(settings), run_(run) {}

  // All stages that these settings ask for, in order. Without generate.prompts there is no generate stage: conversations
  // are given then.
  std::vector<Stage> stages();

 private:
  Result<Target*> open();  // the target, opened once
  std::string conversations_line() const;

  Result<StageOutcome> do_generate(std::stop_token stop);
  Result<StageOutcome> do_extract(std::stop_token stop);
  Result<StageOutcome> do_train(std::stop_token stop);
  Result<StageOutcome> do_export(std::stop_token stop);
  Result<StageOutcome> do_bench(std::stop_token stop);
  Result<StageOutcome> do_report(std::stop_token stop);

  const Settings& settings_;
  RunFolder& run_;
  FileSystem& fs_ = real_file_system();
  std::unique_ptr<Target> target_;
};

// Settings that make the demo fit half an hour on two cores; they go in before files, environment and flags.
void apply_demo_defaults(Settings& settings);

}  // namespace aerie
