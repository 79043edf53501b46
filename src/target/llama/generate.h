// Answers many requests with one context: a new request is prefilled as soon as a place is free, and all answers in flight
// grow by one token a pass. Inner header.
//
// One thread; borrows the model. The context lives as long as the Generator and is emptied by every run.
#pragma once

#include <memory>

#include "target/llama/library.h"
#include "target/target.h"

namespace aerie::llama {

class Generator {
 public:
  static Result<std::unique_ptr<Generator>> open(llama_model& model, const TargetConfig& config);
  ~Generator();
  Status run(const std::vector<GenerateRequest>& requests, const Target::OnGenerated& done, std::stop_token stop);

 private:
  struct Answer;
  Generator(llama_model& model, const TargetConfig& config, ContextPtr context);
  Status prefill(Answer& answer);
  Status step();
  // Chooses the next token of an answer from row `row` of the last pass, and ends the answer when it is over.
  Status take(Answer& answer, int row);
  Status finish(Answer& answer, bool stopped);

  llama_model& model_;
  TargetConfig config_;
  ContextPtr context_;
  Batch batch_;
  std::vector<std::unique_ptr<Answer>> places_;  // by sequence id; null = free
  const std::vector<GenerateRequest>* requests_ = nullptr;
  const Target::OnGenerated* done_ = nullptr;
};

}  // namespace aerie::llama
