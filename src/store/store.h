// A store: records of tensors that survive crashes, as sealed safetensors shards in one folder (docs/store.md).
//
//   store.json                 what the samples are: target, fingerprint, boundaries, norm, dtype, probe
//   shards/<name>.safetensors  sealed shards; a name is there only when its content is whole and synced
//   skipped.jsonl              samples that could not be extracted, with the reason
//   target_head.safetensors    norm [H], lm_head [V, H], embeddings [V, H] (left out when tied) of the target, F32
//
// A StoreWriter collects samples in memory up to StoreConfig::shard_mb and publishes them as a shard by link + folder
// sync; a kill at any moment loses at most what is not sealed and never a published shard. One process writes a store at
// a time (a lock; kUnavailable names the holder), and one thread uses a writer. Parts, claims and several writers come
// with the next step; the shard header already has their places. A StoreReader is safe from several threads; it sees
// the shards that were sealed when it was opened. Damage is kCorrupt and names shard, sample and tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace aerie {

struct StoreHeader {
  std::string target_fingerprint;
  std::string target_name;
  std::string architecture;
  std::string engine;
  std::string weight_type;
  int layer_count = 0;
  int hidden_size = 0;
  int vocab_size = 0;
  std::vector<int> boundaries;
  bool last_is_prenorm = true;
  std::string dtype = "BF16";  // or "F32"
  std::string probe_json;      // ProbeReport::json()
  std::string facts_json;      // the rest of the target's facts, for a draft's config
};

// One sample. Floats in memory; stored as the header's dtype.
struct Sample {
  std::string id;
  std::vector<int32_t> input_ids;   // [T]
  std::vector<uint8_t> loss_mask;   // [T], 1 = token produced by the target
  std::vector<float> aux;           // [T, boundaries * H], boundaries side by side in a row, ascending
  std::vector<float> last;          // [T, H]
};

struct StoreConfig {
  int shard_mb = 64;
  double seal_after_s = 120;

  void fields(FieldList& v);
};

class StoreWriter {
 public:
  // Makes the store, or opens it to go on; a header that differs is kInvalid and names the field and both values (name,
  // probe and facts of the target are for people and may differ). Removes what an earlier writer left unfinished.
  static Result<std::unique_ptr<StoreWriter>> open(FileSystem& fs, const std::string& path, const StoreHeader& header,
                                                   const StoreConfig& config);
  ~StoreWriter();  // drops what is not sealed

  // Ids that need no work: stored, or skipped for a reason that stays.
  const std::unordered_set<std::string>& present() const;
  // Those of them that were skipped, in the order in which they were recorded.
  const std::vector<std::string>& skipped() const;
  // Adds a sample to the open shard; seals it when it is full or old. Returns the ids that became durable by this call.
  // kInvalid, and only then is the sample itself at fault: shapes that do not fit, values that are not finite, a state
  // of zeros only. kExists: an id that is stored, skipped, or given before with other tokens.
  // Any other failure is the disk's (kFull, ...): nothing published is hurt and what was taken stays in memory. The
  // same call may be made again when the cause is gone; a sample that was taken already is not taken twice.
  Result<std::vector<std::string>> add(const Sample& sample);
  // Seals the open shard; returns the ids that became durable. Failures as above, never kInvalid.
  Result<std::vector<std::string>> seal();
  // Records durably that a sample cannot be extracted. kExists for an id that is present.
  Status skip(const std::string& id, const std::string& reason);

  struct State;

 private:
  explicit StoreWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct SampleInfo {
  std::string id;
  int64_t token_count = 0;
  int64_t supervised_count = 0;  // sum of the loss mask
};

class StoreReader {
 public:
  static Result<std::unique_ptr<StoreReader>> open(FileSystem& fs, const std::string& path);
  ~StoreReader();
  const StoreHeader& header() const;
  const std::vector<SampleInfo>& samples() const;  // ordered by id
  Result<Sample> read(size_t index) const;         // checksums verified
  // Ids and mask only: for counting a vocabulary without touching the states.
  Result<Sample> read_tokens(size_t index) const;
  Status verify() const;  // every byte of every shard

  struct State;

 private:
  explicit StoreReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What turns a final state into logits, kept beside the samples so that training needs no model file.
// `embeddings` may be empty: the lm_head is the embedding table then.
Status write_target_head(FileSystem& fs, const std::string& store_path, const TensorView& norm, const TensorView& lm_head,
                         const TensorView& embeddings);
struct StoredHead {
  std::vector<float> norm;        // [H]
  std::vector<float> lm_head;     // [V, H]
  std::vector<float> embeddings;  // [V, H]; empty when tied
};
Result<StoredHead> read_target_head(FileSystem& fs, const std::string& store_path);

}  // namespace aerie
