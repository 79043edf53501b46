// How far a stage is: a bar on a terminal, one line every 10 s elsewhere, and progress.json in the run folder.
//
// Counts committed work only. Two rates: over the last minute and over the run; a rate older than its window is not
// shown ("nothing finished for 95 s" instead). One owner; advance() may be called from several threads. Failing to write
// progress.json is logged once and does not fail the work.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/json.h"

namespace aerie {

class RunFolder;

struct ProgressOptions {
  std::string stage;       // "extract"
  std::string unit;        // "samples"
  int64_t total = 0;       // 0 = unknown
  int64_t done_before = 0; // already there when the stage began (resume); not part of the rates
  std::string second_unit; // "tokens", counted beside the unit; empty = none
  double ends_in_s = 0;    // a stage with a time limit ends then, whatever is left of the total; 0 = no limit
};

class Progress {
 public:
  // `run` may be null; it is borrowed. The clock is borrowed.
  Progress(ProgressOptions options, RunFolder* run, const Clock& clock = real_clock());
  ~Progress();  // finishes without a final line when finish() was not called
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(int64_t units, int64_t second_units = 0);
  // Short facts shown behind the bar and written into progress.json, such as {"loss", 2.31}.
  void facts(Fields fields);
  // Draws and writes if it is time to; advance() does so too. Call it in long loops that commit nothing.
  void tick();
  void finish(const std::string& sentence);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// "1 h 02 min", "3 min 10 s", "12 s".
std::string duration_text(double seconds);

}  // namespace aerie
