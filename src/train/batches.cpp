#include "train/batches.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"
#include "samples/samples.h"

namespace aerie {
namespace {

constexpr double kReadDeadline_s = 300;  // for one batch: a store that takes longer is stuck, not slow

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

struct BatchReader::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<Sample>> ready;
  uint64_t held_bytes = 0;
  std::optional<Error> failure;
  bool ended = false;
  std::jthread thread;  // last: it uses the rest
};

BatchReader::BatchReader(const StoreReader& store, DataOrder order, int64_t from, int64_t to, int max_length,
                         uint64_t most_bytes)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.thread = std::jthread(
      [&s, &store, from, to, max_length, most_bytes, order = std::move(order)](std::stop_token stop) mutable {
        for (int64_t step = from; step < to; ++step) {
          std::vector<Sample> samples;
          for (const size_t index : order.batch(step)) {
            if (stop.stop_requested()) return;
            auto sample = read_cut(store, index, max_length);
            if (!sample) {
              const std::scoped_lock lock(s.mutex);
              s.failure = std::move(sample).error();
              s.changed.notify_all();
              return;
            }
            samples.push_back(*std::move(sample));
          }
          std::unique_lock lock(s.mutex);
          // The consumer may be computing for long; it asks for the stop when it goes away, so waiting in pieces is
          // bounded.
          while (!stop.stop_requested() && !s.ready.empty() && s.held_bytes >= most_bytes) {
            s.changed.wait_for(lock, std::chrono::milliseconds(200));
          }
          if (stop.stop_requested()) return;
          s.held_bytes += bytes_of(samples);
          s.ready.push_back(std::move(samples));
          s.changed.notify_all();
        }
        const std::scoped_lock lock(s.mutex);
        s.ended = true;
        s.changed.notify_all();
      });
}

BatchReader::~BatchReader() = default;  // the thread is asked to stop and joined; it looks between samples

Result<std::vector<Sample>> BatchReader::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const bool came = s.changed.wait_for(lock, std::chrono::duration<double>(kReadDeadline_s),
                                       [&] { return !s.ready.empty() || s.failure || s.ended; });
  if (!came) return timed_out(fmt::format("reading a batch from the store took more than {:.0f} s", kReadDeadline_s));
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
