// Samples of a store for training: which ones, in what order, in which batches, and read ahead on a thread of its own.
//
// A split never depends on order or count of samples, only on the id of each sample's prompt, so a sample never changes
// sides when the store grows, and several answers to one prompt stay together. Data order depends on seed and epoch
// alone. BatchReader owns one thread, holds at most `most_bytes` (and one batch at least), and is used by one thread.
// All waits end. A thread that hangs in the kernel (dead storage) is given up together with all it uses: it shares the
// store and holds nothing of the caller's but the file system. Private to train.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "store/store.h"
#include "train/ttt.h"

namespace aerie {

struct SampleSplit {
  std::vector<size_t> train, validation;  // indices into StoreReader::samples(), ascending
};

// Samples without a supervised token belong to neither. When the share is above 0 and there are two samples at least,
// both sides get one.
SampleSplit split_samples(const std::vector<SampleInfo>& samples, double validation_share);

using Batch = std::vector<size_t>;  // sample indices

// The order of the data: every epoch shuffles the samples anew and cuts them into the same number of batches of whole
// samples with about equal tokens, near batch_tokens and above it by less than one sample.
class DataOrder {
 public:
  DataOrder(const std::vector<SampleInfo>& samples, std::vector<size_t> chosen, int max_length, int batch_tokens,
            int64_t seed);
  int64_t batches_an_epoch() const { return batches_an_epoch_; }
  std::vector<Batch> epoch(int64_t epoch) const;
  // Of step 0, 1, ... over all epochs. Remembers the last epoch asked for.
  Batch batch(int64_t step);

 private:
  std::vector<size_t> chosen_;
  std::vector<int64_t> lengths_;  // [samples of the store] tokens after cutting
  int64_t seed_, tokens_ = 0, batches_an_epoch_ = 1;
  int64_t held_epoch_ = -1;
  std::vector<Batch> held_;
};

// Reads one sample, cut to max_length.
Result<Sample> read_cut(const StoreReader& store, size_t index, int max_length);
// Borrows from the samples.
std::vector<TttSequence> sequences_of(const std::vector<Sample>& samples);

class BatchReader {
 public:
  // Reads the batches of steps [from, to) in order. A batch that takes longer than `deadline_s` is stuck, not slow.
  BatchReader(std::shared_ptr<const StoreReader> store, DataOrder order, int64_t from, int64_t to, int max_length,
              uint64_t most_bytes, double deadline_s = 300);
  ~BatchReader();  // waits two seconds at most for the sample that is being read
  // The next batch's samples; kNotFound after the last one, kTimeout after the deadline, and kCancelled soon after
  // `stop` asks while there is none.
  Result<std::vector<Sample>> next(const std::stop_token& stop = {});

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
  double deadline_s_;
  std::jthread thread_;
};

}  // namespace aerie
