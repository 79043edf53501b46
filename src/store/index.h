// Private to the store room: all samples of a store, from the headers of its shards.
//
// Plain values. A shard that cannot be read is kCorrupt and named; nothing is left out silently.
#pragma once

#include <string>
#include <vector>

#include "store/shard.h"

namespace aerie {

struct IndexEntry : ShardEntry {
  size_t shard = 0;  // place in StoreIndex::shards
};

struct StoreIndex {
  std::vector<std::string> shards;   // file names, sorted
  std::vector<IndexEntry> entries;   // sorted by id; a sample that is there twice (same hash) once
};

Result<StoreIndex> read_store_index(FileSystem& fs, const std::string& store_path, const ShardFacts& facts);

}  // namespace aerie
