#include "store/description.h"
#include "store/index.h"
#include "store/shard.h"
#include "store/store.h"

namespace aerie {

// Never changed after open: that is what makes a reader safe from several threads.
struct StoreReader::State {
  FileSystem& fs;
  std::string path;
  Description description;
  StoreIndex index;
  std::vector<SampleInfo> samples;

  std::string shard_path(size_t shard) const { return path + "/shards/" + index.shards[shard]; }
};

namespace {

Error under_sample(Error error, const std::string& shard, const std::string& id) {
  return std::move(error).under("shard " + shard + ", sample " + id);
}

Result<Sample> read_whole(ReadableFile& file, const IndexEntry& entry, const RecordShape& shape) {
  TRY(const RecordBlock block, read_block(file, entry));
  return read_record(file, entry, block, shape, true);
}

Result<Sample> read_ids_and_mask(ReadableFile& file, const IndexEntry& entry) {
  TRY(const RecordBlock block, read_block(file, entry));
  const RecordTensor* ids = nullptr;
  const RecordTensor* mask = nullptr;
  for (const auto& tensor : block.tensors) {
    if (tensor.role == "input_ids") ids = &tensor;
    if (tensor.role == "loss_mask") mask = &tensor;
  }
  if (!ids || !mask || mask->offset != ids->offset + ids->bytes) return corrupt("its token ids and mask are not where they should be");
  std::vector<std::byte> bytes(ids->bytes + mask->bytes);
  CHECKED(file.read_at(entry.offset + ids->offset, bytes));
  return decode_tokens(block, bytes);
}

}  // namespace

StoreReader::StoreReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
StoreReader::~StoreReader() = default;
const StoreHeader& StoreReader::header() const { return state_->description.header; }
const std::vector<SampleInfo>& StoreReader::samples() const { return state_->samples; }

Result<std::unique_ptr<StoreReader>> StoreReader::open(FileSystem& fs, const std::string& path) {
  TRY(const bool there, fs.exists(path + "/store.json"));
  if (!there) {
    return not_found(path + " is no store: it has no store.json (make one with aerie extract)");
  }
  TRY(Description description, read_description(fs, path));
  TRY(StoreIndex index, read_store_index(fs, path, description.facts()));
  auto state = std::make_unique<State>(State{fs, path, std::move(description), std::move(index), {}});
  for (const auto& entry : state->index.entries) {
    state->samples.push_back({entry.id, entry.token_count, entry.supervised_count});
  }
  return std::unique_ptr<StoreReader>(new StoreReader(std::move(state)));
}

Result<Sample> StoreReader::read(size_t i) const {
  if (i >= state_->samples.size()) return invalid("sample " + std::to_string(i) + " of " + std::to_string(state_->samples.size()));
  const IndexEntry& entry = state_->index.entries[i];
  TRY(auto file, state_->fs.open(state_->shard_path(entry.shard)));
  auto sample = read_whole(*file, entry, state_->description.facts().shape);
  if (!sample) return under_sample(std::move(sample).error(), file->path(), entry.id);
  return sample;
}

Result<Sample> StoreReader::read_tokens(size_t i) const {
  if (i >= state_->samples.size()) return invalid("sample " + std::to_string(i) + " of " + std::to_string(state_->samples.size()));
  const IndexEntry& entry = state_->index.entries[i];
  TRY(auto file, state_->fs.open(state_->shard_path(entry.shard)));
  auto sample = read_ids_and_mask(*file, entry);
  if (!sample) return under_sample(std::move(sample).error(), file->path(), entry.id);
  return sample;
}

Status StoreReader::verify() const {
  const ShardFacts facts = state_->description.facts();
  for (size_t i = 0; i < state_->index.shards.size(); ++i) CHECKED(verify_shard(state_->fs, state_->shard_path(i), facts));
  return ok_status();
}

}  // namespace aerie
