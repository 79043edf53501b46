// Prompts -> conversations answered by the target, token ids kept verbatim.
//
// Blocks on the calling thread, which is the only one that calls the target; the target, the run folder and the file
// system are borrowed. Every answer is durable before it is counted, so a run that is killed at any point goes on where
// it was: ids that are in the output are not asked again. An answer depends on its prompt, the settings and (seed, id),
// never on order or company. A prompt that can never be answered is recorded in skipped.jsonl of the run folder and
// does not stop the run; everything else does, with what was answered kept.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/run_folder.h"
#include "samples/samples.h"
#include "target/target.h"

namespace aerie {

struct GenerateConfig {
  std::string prompts;      // file
  int max_tokens = 256;
  double temperature = 0;
  double top_p = 1;
  int top_k = 0;
  int64_t seed = 1;
  int limit = 0;            // 0 = all prompts
  double time_limit_s = 0;  // of one call: no answer is begun after this; 0 = none
  int answers = 1;          // to each prompt; from the second on ids as answer_id() makes them; needs a temperature
  std::string system;       // put in front of prompts that have no system message of their own
  int window_kb = 4096;     // prompt token ids handed to the engine at once

  void fields(FieldList& v);
};

struct GenerateStats {
  int64_t wanted = 0;         // answers to all prompts, after the limit
  int64_t already_there = 0;
  int64_t answered = 0;       // by this call
  int64_t not_asked = 0;      // the time limit came first
  int64_t skipped = 0;        // can never be answered; see skipped.jsonl
  int64_t ended = 0;          // answers that ended by themselves, of `answered`
  int64_t answer_tokens = 0;  // by this call
  double seconds = 0;
};

// kInvalid when the target has no chat template, when the output holds answers of another target to these prompts
// (names both fingerprints), or when no prompt at all could be answered; kFull, kCancelled and the engine's errors as
// they come.
Result<GenerateStats> generate(Target& target, const std::vector<Prompt>& prompts, const GenerateConfig& config,
                               const std::string& output, RunFolder& run, std::stop_token stop,
                               FileSystem& fs = real_file_system());

// The seed of one request.
uint64_t request_seed(int64_t seed, const std::string& id);

}  // namespace aerie
