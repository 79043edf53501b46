// Writes samples into a store on a thread of its own, so that the engine never waits for the disk while there is room.
// Inside this room only.
//
// The queue is bounded in bytes. All waits end: after `patience_s` without a sign of life from the store the caller gets
// kTimeout, and the thread, which then hangs in the kernel, is given up together with all it owns; it holds nothing of
// the caller's but the file system. One thread calls this object. After an error of the store everything fails with it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/store.h"
#include "target/target.h"

namespace aerie {

// A captured sample on its way, or (reason not empty) one that could not be captured.
struct StoreWork {
  std::string id;
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  Captured captured;
  std::string skip_reason;
  uint64_t bytes() const;
};

// What one call of the store made durable.
struct Committed {
  int64_t samples = 0;
  int64_t tokens = 0;
  std::vector<std::string> skipped_ids, skipped_reasons;  // recorded as not extractable
};

class StoreThread {
 public:
  StoreThread(std::unique_ptr<StoreWriter> writer, uint64_t queue_bytes, double patience_s);
  ~StoreThread();  // drops what is queued; waits for the call in progress as long as patience lasts

  // `waiting` is called about five times a second while there is no room; it may end the wait with its Status.
  Status push(StoreWork work, const std::function<Status()>& waiting);
  // What became durable since the last call, a shard each.
  std::vector<Committed> take();
  // Writes what is queued, seals, ends the thread.
  Status finish(const std::function<Status()>& waiting);

  struct Shared;

 private:
  Status wait_until(const std::function<bool()>& ready, const std::function<Status()>& waiting);
  std::shared_ptr<Shared> shared_;
  std::jthread thread_;
};

}  // namespace aerie
