#include "extract/store_thread.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/clock.h"

namespace aerie {

// Everything the thread touches; the caller and the thread own it together.
struct StoreThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<StoreWork> queue;
  uint64_t queued_bytes = 0;   // of the queue and of the work in progress
  uint64_t queue_bytes = 0;    // the bound
  double patience_s = 0;
  double alive_s = 0;          // when the store last returned from a call
  bool closing = false;        // no more work comes: write what is there, seal, end
  bool dropping = false;       // end without writing
  bool ended = false;
  std::optional<Error> error;
  std::vector<Committed> committed;

  // The thread's own.
  std::unique_ptr<StoreWriter> writer;
  std::unordered_map<std::string, int64_t> unsealed_tokens;  // of samples given to the store, not durable yet
};

uint64_t StoreWork::bytes() const {
  uint64_t floats = captured.last.size();
  for (const auto& state : captured.states) floats += state.size();
  return floats * sizeof(float) + ids.size() * sizeof(int32_t) + mask.size() + id.size() + skip_reason.size();
}

namespace {

using Shared = StoreThread::Shared;

// Boundaries side by side in a row, as the store keeps them.
Sample sample_of(StoreWork work) {
  Sample sample;
  const size_t rows = work.ids.size();
  const size_t width = work.captured.last.size() / rows, count = work.captured.states.size();
  sample.aux.resize(rows * count * width);
  for (size_t boundary = 0; boundary < count; ++boundary) {
    const float* from = work.captured.states[boundary].data();
    for (size_t row = 0; row < rows; ++row)
      std::copy_n(from + row * width, width, sample.aux.data() + (row * count + boundary) * width);
    std::vector<float>().swap(work.captured.states[boundary]);
  }
  sample.id = std::move(work.id);
  sample.input_ids = std::move(work.ids);
  sample.loss_mask = std::move(work.mask);
  sample.last = std::move(work.captured.last);
  return sample;
}

Committed committed_of(Shared& shared, const std::vector<std::string>& ids) {
  Committed committed;
  for (const std::string& id : ids) {
    const auto found = shared.unsealed_tokens.find(id);
    if (found == shared.unsealed_tokens.end()) continue;
    ++committed.samples;
    committed.tokens += found->second;
    shared.unsealed_tokens.erase(found);
  }
  return committed;
}

Result<Committed> skip(Shared& shared, const std::string& id, const std::string& reason) {
  CHECKED(shared.writer->skip(id, reason));
  Committed committed;
  committed.skipped_ids = {id};
  committed.skipped_reasons = {reason};
  return committed;
}

Result<Committed> write(Shared& shared, StoreWork work) {
  if (!work.skip_reason.empty()) return skip(shared, work.id, work.skip_reason);
  const std::string id = work.id;
  shared.unsealed_tokens[id] = static_cast<int64_t>(work.ids.size());
  auto durable = shared.writer->add(sample_of(std::move(work)));
  if (!durable) {
    shared.unsealed_tokens.erase(id);
    // The sample's own fault (a value that is not finite): that one is left out. All else is the store's.
    if (durable.error().code == Code::kInvalid) return skip(shared, id, durable.error().what);
    return std::move(durable).error();
  }
  return committed_of(shared, *durable);
}

Result<Committed> seal(Shared& shared) {
  TRY(const auto ids, shared.writer->seal());
  return committed_of(shared, ids);
}

void run_thread(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (bool last = false; !last;) {
    // Woken by every push and by closing; the bound only guards against a lost wake-up.
    while (shared.queue.empty() && !shared.closing && !shared.dropping)
      shared.changed.wait_for(lock, std::chrono::seconds(1));
    if (shared.dropping) break;
    StoreWork work;
    last = shared.queue.empty();
    if (!last) {
      work = std::move(shared.queue.front());
      shared.queue.pop_front();
    }
    const uint64_t bytes = work.bytes();
    shared.alive_s = real_clock().monotonic_s();
    lock.unlock();
    auto committed = last ? seal(shared) : write(shared, std::move(work));
    lock.lock();
    shared.alive_s = real_clock().monotonic_s();
    if (!last) shared.queued_bytes -= bytes;
    if (!committed) {
      shared.error = std::move(committed).error();
      break;
    }
    if (committed->samples > 0 || !committed->skipped_ids.empty())
      shared.committed.push_back(*std::move(committed));
    shared.changed.notify_all();
  }
  // The store closes here: what it holds unsealed is given up, and its lock is free when the caller goes on.
  lock.unlock();
  shared.writer.reset();
  lock.lock();
  shared.ended = true;
  shared.changed.notify_all();
}

}  // namespace

StoreThread::StoreThread(std::unique_ptr<StoreWriter> writer, uint64_t queue_bytes, double patience_s)
    : shared_(std::make_shared<Shared>()) {
  shared_->writer = std::move(writer);
  shared_->queue_bytes = queue_bytes;
  shared_->patience_s = patience_s;
  shared_->alive_s = real_clock().monotonic_s();
  thread_ = std::jthread([shared = shared_] { run_thread(*shared); });
}

StoreThread::~StoreThread() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->dropping = true;
    shared_->changed.notify_all();
  }
  const Status ended = wait_until([this] { return shared_->ended; }, [] { return ok_status(); });
  if (!ended && thread_.joinable()) thread_.detach();  // it hangs in the kernel; joining would hang us too
}

Status StoreThread::wait_until(const std::function<bool()>& ready, const std::function<Status()>& waiting) {
  const double start_s = real_clock().monotonic_s();
  std::unique_lock lock(shared_->mutex);
  while (!ready()) {
    shared_->changed.wait_for(lock, std::chrono::milliseconds(200));
    if (ready()) break;
    const double silent_s = real_clock().monotonic_s() - std::max(start_s, shared_->alive_s);
    if (silent_s > shared_->patience_s)
      return timed_out("the store has not answered for " + std::to_string(static_cast<int64_t>(silent_s)) +
                       " s; its storage hangs (samples that are sealed stay)");
    lock.unlock();
    CHECKED(waiting());
    lock.lock();
  }
  return ok_status();
}

Status StoreThread::push(StoreWork work, const std::function<Status()>& waiting) {
  const uint64_t bytes = work.bytes();
  // A sample larger than the whole queue goes in alone.
  CHECKED(wait_until(
      [&] {
        return shared_->error || shared_->ended || shared_->queued_bytes == 0 ||
               shared_->queued_bytes + bytes <= shared_->queue_bytes;
      },
      waiting));
  const std::lock_guard lock(shared_->mutex);
  if (shared_->error) return *shared_->error;
  shared_->queued_bytes += bytes;
  shared_->queue.push_back(std::move(work));
  shared_->changed.notify_all();
  return ok_status();
}

std::vector<Committed> StoreThread::take() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->committed, {});
}

Status StoreThread::finish(const std::function<Status()>& waiting) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
    shared_->changed.notify_all();
  }
  CHECKED(wait_until([this] { return shared_->ended; }, waiting));
  thread_.join();
  const std::lock_guard lock(shared_->mutex);
  if (shared_->error) return *shared_->error;
  return ok_status();
}

}  // namespace aerie
