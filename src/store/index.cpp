#include "store/index.h"

#include <algorithm>
#include <tuple>

namespace aerie {

Result<StoreIndex> read_store_index(FileSystem& fs, const std::string& store_path, const ShardFacts& facts) {
  StoreIndex index;
  TRY(index.shards, shard_names(fs, store_path));
  for (size_t i = 0; i < index.shards.size(); ++i) {
    TRY(ShardIndex shard, read_shard_index(fs, store_path + "/shards/" + index.shards[i], facts));
    for (auto& entry : shard.entries) index.entries.push_back({std::move(entry), i});
  }
  std::stable_sort(index.entries.begin(), index.entries.end(),
                   [](const auto& a, const auto& b) { return std::tie(a.id, a.shard) < std::tie(b.id, b.shard); });
  // A shard whose folder sync failed may stand beside the one that was written after it.
  for (size_t i = 1; i < index.entries.size(); ++i) {
    const auto& a = index.entries[i - 1];
    const auto& b = index.entries[i];
    if (a.id == b.id && a.hash_hex != b.hash_hex) {
      return corrupt("store " + store_path + ": sample " + a.id + " is in shards " + index.shards[a.shard] + " and " +
                     index.shards[b.shard] + " with different tokens; move the wrong one out of the folder");
    }
  }
  const auto same_id = [](const auto& a, const auto& b) { return a.id == b.id; };
  index.entries.erase(std::unique(index.entries.begin(), index.entries.end(), same_id), index.entries.end());
  return index;
}

}  // namespace aerie
