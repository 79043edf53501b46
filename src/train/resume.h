// The one file a training run goes on from: weights, optimizer moments and where the run stands, all of the same save
// because they are one atomically written file. Private to train.
//
// Reading gives kCorrupt for a damaged file, and kInvalid, with both values, when it belongs to another target, store,
// vocabulary or setting than the run that wants it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace aerie {

// Absent is what no slot of the validation samples could tell.
struct ValidationResult {
  std::optional<double> loss;
  std::vector<double> accuracy;  // per TTT step
  std::optional<double> acceptance;
};

struct TrainState {
  int64_t step = 0;                  // optimizer steps done
  double elapsed_s = 0;              // of training, over all attempts
  std::optional<double> train_loss;  // smoothed; absent until a batch had a supervised slot
  int64_t validated_step = -1;
  ValidationResult validation;  // of validated_step
  int64_t best_step = -1;       // -1 = nothing was validated yet
  ValidationResult best;        // of best_step
  bool finished = false;
};

// What must be the same for a run to go on, as names and values for people: "lr" -> "0.0001".
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

Status write_resume(FileSystem& fs, const std::string& path, const TrainState& state, const RunIdentity& identity,
                    const std::vector<Tensor>& tensors);

struct Resumed {
  TrainState state;
  std::vector<Tensor> tensors;
};
// Empty when there is no such file.
Result<std::optional<Resumed>> read_resume(FileSystem& fs, const std::string& path, const RunIdentity& identity);

}  // namespace aerie
