// One HTML page about a run, for someone who has never seen the project: what was done, how the draft learned, how
// often its guesses were right, what that is worth in speed, on which machine, and how far to trust it.
//
// The page is one file: style, data and Chart.js (when the build found it) are inside, nothing is fetched. Every number
// in a chart also stands in a table, so that it can be read without scripts, printed, and searched. All text is
// escaped. Plain data in, a string out; nothing here measures anything, and what is unknown is left out with a
// sentence.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/result.h"
#include "bench/bench.h"
#include "bench/machine.h"

namespace aerie {

struct ReportStage {
  std::string name;     // "train"
  std::string purpose;  // "teaches the draft to guess what the target says next"
  std::optional<double> seconds;
  std::string sentence;  // what came of it
};

struct TrainPoint {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> lr, tokens_per_s;
};
struct ValidationPoint {
  int64_t step = 0;
  double loss = 0;
  std::vector<double> accuracy;  // by step of the chain
  std::optional<double> acceptance_estimate;
};
struct TrainingCurve {
  std::vector<TrainPoint> train;
  std::vector<ValidationPoint> validation;
};

// From a run's events.jsonl: "train_step" {step, loss, lr, tokens_per_s} and "validation" {step, loss, accuracy,
// acceptance_estimate}. Steps that a resumed run did again count once, as done last. A torn last line is left out; any
// other line that is not JSON is kCorrupt with its number. No file: kNotFound.
Result<TrainingCurve> read_training_curve(FileSystem& fs, const std::string& events_path);

struct ReportData {
  std::string title;    // "SmolLM2-135M-Instruct with an EAGLE-3 draft"
  std::string made_at;  // UTC
  std::string notice;   // shown above everything, such as "made-up data for a test"; empty = none
  std::vector<ReportStage> stages;
  TrainingCurve training;
  std::vector<BenchResult> benches;  // one a target, in the order to show
  std::optional<MachineFacts> machine;
  std::vector<std::pair<std::string, std::string>> versions;      // "aerie", "0.1.0"
  std::vector<std::pair<std::string, std::string>> target_facts;  // "layers", "30"
  std::vector<std::pair<std::string, std::string>> draft_facts;
  std::string target_fingerprint;
  std::vector<std::string> limits;  // sentences about what this run does not show; some are added by the report
};

// The page's first words: what the draft is worth on each target.
std::string report_verdict(const std::vector<BenchResult>& benches);

std::string report_html(const ReportData& data);
Status write_report(FileSystem& fs, const std::string& path, const ReportData& data);

}  // namespace aerie
