// One training run from store to checkpoints. Made, run once, dropped; one thread, plus the reader's. Private to train.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/progress.h"
#include "base/run_folder.h"
#include "store/store.h"
#include "train/batches.h"
#include "train/resume.h"
#include "train/train.h"
#include "train/ttt.h"
#include "train/vocabulary.h"

namespace aerie {

class Trainer {
 public:
  // `fs` must live as long as the program: a reader's thread that hangs in it is given up, not joined.
  Trainer(FileSystem& fs, std::string store_path, const TrainConfig& config, RunFolder& run, std::stop_token stop);
  Result<TrainResult> go();

 private:
  Status prepare();
  Status choose_words();
  Status make_model();
  Status measure_best(const std::shared_ptr<const StoredHead>& head, const TttOptions& options);
  Status fit_start(const std::shared_ptr<const StoredHead>& head, const TttOptions& options);
  RunIdentity identity() const;

  Status loop();
  Status stopped();
  Status one_step(BatchReader& reader);
  Status report_step(const std::vector<Sample>& samples, const TttOutputs& outputs, double lr, double norm,
                     double seconds);
  void show(int64_t tokens);
  bool over() const;
  double progress() const;
  double progress_after_next() const;
  double elapsed_s() const;
  bool validation_due();

  Status validate();
  Result<ValidationResult> measure_validation(TttModel& model);
  Status save();
  Checkpoint checkpoint_now() const;
  TrainResult result() const;

  std::string store_path_;
  const TrainConfig& config_;
  RunFolder& run_;
  std::stop_token stop_;
  FileSystem& fs_;

  std::shared_ptr<const StoreReader> store_;
  SampleSplit split_;
  std::optional<DataOrder> order_;
  std::vector<size_t> validated_;                        // the part of the validation samples that is looked at
  std::vector<std::vector<int32_t>> validation_labels_;  // teacher's argmax, made once
  DraftVocabulary words_;
  Checkpoint draft_;  // tensors: d2t only; weights live in the model
  std::unique_ptr<TttModel> model_;

  TrainState state_;
  int64_t total_steps_ = 0;  // by epochs and max_steps
  double started_s_ = 0, elapsed_before_s_ = 0, saved_at_s_ = 0;
  int64_t saved_step_ = -1, first_step_ = 0;
  int tenths_seen_ = 0;  // of the run, when validation was last thought of
  std::unique_ptr<Progress> progress_;
};

}  // namespace aerie
