// Answers many requests with one context: prompts are taken in while answers in flight grow by one token a pass, and a place
// that becomes free is given to the next request at once.
//
// Every chunk of a prompt is a pass of its own, so that what a prompt yields does not depend on what runs beside it; the
// number of answers in flight changes only the rounding of later tokens (kernels for few rows differ in the last bits).
// Inner header. One thread; borrows the model. The context lives as long as the Generator and is emptied by every run.
#pragma once

#include <memory>

#include "target/llama/library.h"
#include "target/target.h"

namespace aerie::llama {

class Generator {
 public:
  static Result<std::unique_ptr<Generator>> open(llama_model& model, const TargetConfig& config);
  ~Generator();
  Status run(const std::vector<GenerateRequest>& requests, const Target::OnGenerated& done, const std::stop_token& stop,
             const std::stop_token& enough);

 private:
  struct Answer;
  struct Run;
  Generator(llama_model& model, const TargetConfig& config, ContextPtr context);
  // Gives free places to the next requests; those that cannot be answered are told so.
  Status admit(Run& run);
  Status check(const GenerateRequest& request) const;
  // Takes in up to config.batch tokens of prompts, the longest-waiting prompt first.
  Status take_in_prompts(Run& run);
  // One more token for every answer whose prompt is taken in.
  Status step(Run& run);
  // Chooses the next token of an answer from row `row` of the last pass, and ends the answer when it is over.
  Status choose_next(Run& run, Answer& answer, int row);
  Status finish(Run& run, Answer& answer, bool stopped);

  llama_model& model_;
  TargetConfig config_;
  ContextPtr context_;
  Batch batch_;
};

}  // namespace aerie::llama
