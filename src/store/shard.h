// Private to the store room: a shard's header, made and read; and a shard's way to the disk (docs/store.md).
//
// Plain functions, safe from several threads for different shards. Damage is kCorrupt and names the shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "store/record.h"

namespace aerie {

// What all shards of a store have in common.
struct ShardFacts {
  std::string store_uuid, fingerprint;
  RecordShape shape;
};

// One sample as a shard's header tells it.
struct ShardEntry {
  uint64_t ordinal = 0;
  std::string id;
  uint32_t token_count = 0, supervised_count = 0;
  std::string hash_hex;
  uint64_t offset = 0;        // of the record in the file
  uint64_t block_bytes = 0;
  uint64_t record_bytes = 0;
};

struct ShardIndex {
  std::vector<ShardEntry> entries;  // in file order
  uint64_t header_bytes = 0;
};

std::string hex_of(const WriterId& id);

// Sets every record's place, header CRC and block, and returns the file's first 8 + N bytes, N in place.
Result<std::string> lay_out_shard(const ShardFacts& facts, const WriterId& writer, std::vector<Record>& records);

// Writes a laid out shard and gives it its name: after success it is there for good. After a failure the name is absent
// (or, when only the folder's sync failed, there and whole), the records are unchanged, the unfinished file is removed.
Status publish_shard(FileSystem& fs, const std::string& folder, const std::string& name, const std::string& head,
                     std::vector<Record>& records);

// Reads the header alone.
Result<ShardIndex> read_shard_index(FileSystem& fs, const std::string& path, const ShardFacts& facts);
// Reads the block of one sample and checks it against the header.
Result<RecordBlock> read_block(ReadableFile& file, const ShardEntry& entry);
// Reads a whole record chunk by chunk and checks every byte of it.
Result<Sample> read_record(ReadableFile& file, const ShardEntry& entry, const RecordBlock& block, const RecordShape& shape,
                           bool with_states);
// Every byte: header, blocks, payloads.
Status verify_shard(FileSystem& fs, const std::string& path, const ShardFacts& facts);

// Names of sealed shards in a store, sorted.
Result<std::vector<std::string>> shard_names(FileSystem& fs, const std::string& store_path);

}  // namespace aerie
