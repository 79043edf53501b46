#include "train/batches.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "samples/samples.h"
#include "train/guard.h"

namespace aerie {
namespace {

constexpr std::chrono::milliseconds kPiece(200);  // waits are cut into pieces, so that a stop is seen soon
constexpr std::chrono::seconds kPatience(2);      // for the sample that is being read when the reader goes away

// The id's place in [0, 1), the same on every machine. Answers to one prompt share it: a draft that was taught one of
// them is not tested on another.
double place_of(const std::string& id) {
  return static_cast<double>(xxh3_128(as_bytes(prompt_of_answer(id))).low >> 11) * 0x1.0p-53;
}

uint64_t bytes_of(const std::vector<Sample>& samples) {
  uint64_t bytes = 0;
  for (const Sample& s : samples) bytes += (s.aux.size() + s.last.size()) * sizeof(float);
  return bytes;
}

}  // namespace

SampleSplit split_samples(const std::vector<SampleInfo>& samples, double validation_share) {
  SampleSplit split;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].supervised_count == 0) continue;
    (place_of(samples[i].id) < validation_share ? split.validation : split.train).push_back(i);
  }
  // A small store: the sample nearest to the border changes sides.
  const auto nearest = [&](std::vector<size_t>& from, std::vector<size_t>& to, bool lowest) {
    if (!to.empty() || from.size() < 2) return;
    const auto less = [&](size_t a, size_t b) { return place_of(samples[a].id) < place_of(samples[b].id); };
    const auto found =
        lowest ? std::min_element(from.begin(), from.end(), less) : std::max_element(from.begin(), from.end(), less);
    to.push_back(*found);
    from.erase(found);
  };
  if (validation_share > 0) {
    nearest(split.train, split.validation, true);
    nearest(split.validation, split.train, false);
  }
  return split;
}

DataOrder::DataOrder(const std::vector<SampleInfo>& samples, std::vector<size_t> chosen, int max_length,
                     int batch_tokens, int64_t seed)
    : chosen_(std::move(chosen)), seed_(seed) {
  for (const SampleInfo& s : samples) lengths_.push_back(std::min<int64_t>(s.token_count, max_length));
  for (const size_t index : chosen_) tokens_ += lengths_[index];
  const int64_t wanted = (tokens_ + batch_tokens - 1) / batch_tokens;
  batches_an_epoch_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, static_cast<int64_t>(chosen_.size())));
}

std::vector<Batch> DataOrder::epoch(int64_t epoch) const {
  std::vector<size_t> order = chosen_;
  Random random(static_cast<uint64_t>(seed_), static_cast<uint64_t>(epoch));
  random.shuffle(order);
  std::vector<Batch> batches(1);
  int64_t taken = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto made = static_cast<int64_t>(batches.size());
    const int64_t left = static_cast<int64_t>(order.size() - i);
    // Full for its share of the tokens, or exactly one sample is left for each batch that is still to come.
    const bool full = taken * batches_an_epoch_ >= tokens_ * made || left == batches_an_epoch_ - made;
    if (!batches.back().empty() && made < batches_an_epoch_ && full) batches.emplace_back();
    batches.back().push_back(order[i]);
    taken += lengths_[order[i]];
  }
  return batches;
}

Batch DataOrder::batch(int64_t step) {
  const int64_t wanted = step / batches_an_epoch_;
  if (wanted != held_epoch_) {
    held_ = epoch(wanted);
    held_epoch_ = wanted;
  }
  return held_[static_cast<size_t>(step % batches_an_epoch_)];
}

Result<Sample> read_cut(const StoreReader& store, size_t index, int max_length) {
  TRY(Sample sample, store.read(index));
  const size_t tokens = sample.input_ids.size(), kept = static_cast<size_t>(max_length);
  if (tokens > kept) {
    sample.aux.resize(sample.aux.size() / tokens * kept);
    sample.last.resize(sample.last.size() / tokens * kept);
    sample.loss_mask.resize(kept);
    sample.input_ids.resize(kept);
  }
  return sample;
}

std::vector<TttSequence> sequences_of(const std::vector<Sample>& samples) {
  std::vector<TttSequence> sequences;
  for (const Sample& s : samples) sequences.push_back({s.input_ids, s.loss_mask, s.aux, s.last, {}});
  return sequences;
}

// Everything the thread touches; the caller and the thread own it together.
struct BatchReader::Shared {
  Shared(std::shared_ptr<const StoreReader> from, DataOrder in) : store(std::move(from)), order(std::move(in)) {}

  std::shared_ptr<const StoreReader> store;
  DataOrder order;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<Sample>> ready;
  uint64_t held_bytes = 0;
  std::optional<Error> failure;
  bool stopping = false;  // the caller went away
  bool ended = false;     // the thread is done, with or without a failure

  bool asked_to_stop() {
    const std::scoped_lock lock(mutex);
    return stopping;
  }
};

namespace {

using Shared = BatchReader::Shared;

// Reads until the end or until it is asked to stop, which it looks for between samples.
Status read_ahead(Shared& s, int64_t from, int64_t to, int max_length, uint64_t most_bytes) {
  for (int64_t step = from; step < to; ++step) {
    std::vector<Sample> samples;
    for (const size_t index : s.order.batch(step)) {
      if (s.asked_to_stop()) return ok_status();
      TRY(Sample sample, read_cut(*s.store, index, max_length));
      samples.push_back(std::move(sample));
    }
    std::unique_lock lock(s.mutex);
    // Woken by every batch that is taken and by the stop; the bound only guards against a lost wake-up.
    while (!s.stopping && !s.ready.empty() && s.held_bytes >= most_bytes) s.changed.wait_for(lock, kPiece);
    if (s.stopping) return ok_status();
    s.held_bytes += bytes_of(samples);
    s.ready.push_back(std::move(samples));
    s.changed.notify_all();
  }
  return ok_status();
}

}  // namespace

BatchReader::BatchReader(std::shared_ptr<const StoreReader> store, DataOrder order, int64_t from, int64_t to,
                         int max_length, uint64_t most_bytes, double deadline_s)
    : shared_(std::make_shared<Shared>(std::move(store), std::move(order))), deadline_s_(deadline_s) {
  thread_ = std::jthread([shared = shared_, from, to, max_length, most_bytes] {
    Status done = guarded("reading a batch from the store", "lower batch_tokens or max_length",
                          [&] { return read_ahead(*shared, from, to, max_length, most_bytes); });
    const std::scoped_lock lock(shared->mutex);
    if (!done) shared->failure = std::move(done).error();
    shared->ended = true;
    shared->changed.notify_all();
  });
}

BatchReader::~BatchReader() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kPatience, [this] { return shared_->ended; });
  lock.unlock();
  if (!ended) thread_.detach();  // it hangs in the kernel; joining would hang us too
}

Result<std::vector<Sample>> BatchReader::next(const std::stop_token& stop) {
  Shared& s = *shared_;
  const double began_s = real_clock().monotonic_s();
  std::unique_lock lock(s.mutex);
  while (s.ready.empty() && !s.ended) {
    if (stop.stop_requested()) return cancelled("waiting for a batch from the store was stopped");
    if (real_clock().monotonic_s() - began_s > deadline_s_) {
      return timed_out(fmt::format("reading a batch from the store took more than {:.0f} s", deadline_s_));
    }
    s.changed.wait_for(lock, kPiece);
  }
  if (!s.ready.empty()) {
    std::vector<Sample> samples = std::move(s.ready.front());
    s.ready.pop_front();
    s.held_bytes -= bytes_of(samples);
    s.changed.notify_all();
    return samples;
  }
  if (s.failure) return *s.failure;
  return not_found("there are no more batches");
}

}  // namespace aerie
