// Conversations -> a store of the target's hidden states, each exactly once.
//
// Blocks on the calling thread, which is the only one that calls the target; the store is written on another thread
// through a queue bounded in bytes, so that extraction runs at the engine's rate. Target, run folder and file system are
// borrowed. Only sealed samples count as done, in progress and events; a run that is killed, stopped or out of space
// goes on from there. A conversation that can never be extracted is recorded with its reason in the store's
// skipped.jsonl and does not stop the run; it is recorded once a sample that can be extracted has followed, or the
// conversations are all read and the target has shown some sample: what a broken target cannot do is tried again.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/run_folder.h"
#include "store/store.h"
#include "target/target.h"

namespace aerie {

struct ExtractConfig {
  std::string conversations;    // file; not a setting, the caller says where things are
  std::string store;            // folder; likewise
  std::vector<int> boundaries;  // empty = default_boundaries()
  std::string dtype = "BF16";
  int max_length = 2048;        // tokens; longer conversations are cut there
  int queue_mb = 256;           // states captured and not written yet
  double patience_s = 120;      // a storage that does not answer for so long has failed

  void fields(FieldList& v);
};

struct ExtractStats {
  int64_t conversations = 0;   // lines read
  int64_t already_there = 0;   // samples of earlier calls
  int64_t stored = 0;          // by this call, sealed
  int64_t skipped = 0;         // by this call, recorded as such in the store
  int64_t skipped_before = 0;  // by earlier calls; not tried again
  int64_t repeated = 0;        // ids that stand twice in the file; the first one counts
  int64_t cut = 0;             // longer than max_length
  int64_t tokens = 0;          // of stored
  double seconds = 0;
  double engine_seconds = 0;   // inside capture()
};

// kInvalid: no usable conversation, conversations of another target (names both fingerprints), a store of other settings,
// a probe that fails, or kMaxBadInRow conversations in a row that cannot be extracted; kFull, kTimeout, kCancelled and
// the engine's errors as they come, and those of the run folder. Whatever ends it, what was captured is sealed first,
// unless the store itself fails.
Result<ExtractStats> extract(Target& target, const ExtractConfig& config, const StoreConfig& store_config,
                             RunFolder& run, std::stop_token stop, FileSystem& fs = real_file_system());

// So many failures one after another are no accident of single samples. None of them is recorded then.
constexpr int64_t kMaxBadInRow = 100;

}  // namespace aerie
