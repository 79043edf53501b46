// The stages that need LibTorch: train, export, bench, report. In a binary without it (or without llama.cpp) they are
// refused in one sentence. Each blocks on the calling thread. Private to app.
#pragma once

#include <stop_token>

#include "app/settings.h"
#include "app/stages.h"

namespace aerie {

Result<StageOutcome> make_draft(const Settings& settings, RunFolder& run, std::stop_token stop);
Result<StageOutcome> export_draft(FileSystem& fs, const Settings& settings, RunFolder& run, std::stop_token stop);
Result<StageOutcome> bench_draft(FileSystem& fs, const Settings& settings, RunFolder& run, std::stop_token stop);
Result<StageOutcome> report_run(FileSystem& fs, const Settings& settings, RunFolder& run);

}  // namespace aerie
