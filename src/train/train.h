// Makes an EAGLE-3 draft out of a store: training-time test (TTT) by reference formulas (EAGLE-3, arXiv 2503.01840;
// docs/training.md).
//
// train() blocks on the calling thread, uses `threads` for arithmetic, and stops at the next step when the token asks
// (a checkpoint is written first, and kCancelled returned). Everything it says goes into the run folder.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "base/run_folder.h"
#include "train/draft_shape.h"

namespace aerie {

struct TrainConfig {
  int ttt_steps = 7;
  int draft_vocab = 0;        // 0 = chosen from the data
  int intermediate_size = 0;  // 0 = the target's
  bool norm_before_residual = false;
  bool norm_before_fc = false;
  std::string init = "fitted";     // fitted | target | random: what the weights start from
  bool freeze_head = false;        // the lm_head stays as it starts
  std::string mask = "predicted";  // predicted | input | unshifted
  double step_decay = 0.8;
  int epochs = 10;
  int max_steps = 0;        // 0 = epochs decide
  double time_limit_s = 0;  // 0 = none; otherwise the learning rate falls with time so that it ends where time does
  int batch_tokens = 2048;  // tokens a step, samples are never cut below max_length
  int max_length = 2048;    // longer samples are cut there
  double lr = 1e-4;
  double warmup_share = 0.015;
  double min_lr_share = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double weight_decay = 0;
  double clip_norm = 0.5;
  double validation_share = 0.05;
  int validation_tokens = 4096;  // of the validation samples, this many at most are looked at
  int64_t seed = 1;
  int eval_every = 0;              // steps; 0 = ten times a run
  int checkpoint_every = 100;      // steps
  double checkpoint_every_s = 60;  // and also after this time
  int threads = 0;                 // 0 = all cores
  std::string device = "auto";     // auto | cpu; cuda is refused by this build

  void fields(FieldList& v);
};

// Absent is what was not measured: without validation samples, for example, what they tell.
struct TrainResult {
  int64_t steps = 0;
  std::optional<double> train_loss;
  std::optional<double> validation_loss;
  std::vector<double> accuracy;               // per TTT step, validation
  std::optional<double> acceptance_estimate;  // 1 + mean number of leading correct steps, validation, greedy chain
  std::optional<double> vocabulary_coverage;  // share of supervised tokens inside the draft vocabulary
  std::string best_checkpoint;     // paths of draft.safetensors
  std::string last_checkpoint;
};

// Writes into <run>/checkpoints, each file whole or not at all:
//   last/resume.safetensors   weights, optimizer moments and state of one save, together in one file; what a run goes
//   on from
//   last/draft.safetensors    the draft of the same save
//   best/draft.safetensors    the draft with the best acceptance estimate on validation samples
// Goes on from last/resume.safetensors when it is there; a store, vocabulary or setting that differs is kInvalid and
// named. On one machine with the same thread count the result of a resumed run is bitwise that of a straight one (no
// time limit).
Result<TrainResult> train(const std::string& store_path, const TrainConfig& config, RunFolder& run,
                          std::stop_token stop);

// Version of the LibTorch in this binary.
std::string torch_version();

}  // namespace aerie
