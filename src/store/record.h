// Private to the store room: one sample as the bytes of a record (docs/store.md), and back.
//
// A Record owns its bytes. One thread an object. Encoding fails with kInvalid for samples that must not be stored,
// decoding with kCorrupt for bytes that are not what was written; both name what is wrong, the caller adds where.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "store/store.h"
#include "tensor/tensor.h"

namespace aerie {

constexpr uint64_t kPageBytes = 4096;          // of every record's place and length
constexpr uint64_t kChunkBytes = 1024 * 1024;  // of the payload, a CRC each
constexpr size_t kMaxIdBytes = 1024;
constexpr size_t kRecordTensors = 5;           // all but the block itself
using WriterId = std::array<std::byte, 16>;

// A row of the tensor table. Offsets count from the record's first byte.
struct RecordTensor {
  std::string role;
  DType dtype = DType::kU8;
  Shape shape;
  uint64_t offset = 0, bytes = 0;
  uint32_t crc = 0;
};

// What a record block says.
struct RecordBlock {
  uint64_t block_bytes = 0, record_bytes = 0, file_offset = 0;
  WriterId writer{};
  uint64_t ordinal = 0;
  uint32_t token_count = 0, supervised_count = 0;
  uint32_t header_crc = 0;
  Hash128 id_hash;
  double taken_wall_s = 0;
  std::string id;
  std::vector<RecordTensor> tensors;
  std::vector<uint32_t> chunk_crcs;
};

// Shape of the samples of a store.
struct RecordShape {
  int64_t hidden_size = 0, boundary_count = 0, vocab_size = 0;
  int first_boundary = 0;
  DType dtype = DType::kBF16;
};

struct Record {
  RecordBlock block;
  std::unique_ptr<std::byte[]> data;  // block.record_bytes; the block's place holds nothing until seal_record()
  std::span<std::byte> bytes() { return {data.get(), block.record_bytes}; }
};

Hash128 id_hash(const std::string& id, std::span<const int32_t> input_ids);

// The five tensors behind the block, laid out for a sample of T tokens; CRCs are 0.
std::vector<RecordTensor> record_tensors(const RecordShape& shape, int64_t token_count, uint64_t block_bytes);
// Bytes of the block of a sample with this id and number of tokens.
uint64_t record_block_bytes(const RecordShape& shape, int64_t token_count, size_t id_bytes);

// Checks and converts a sample. File offset, ordinal, writer and header CRC are the caller's to set.
Result<Record> encode_record(const RecordShape& shape, const Sample& sample, double taken_wall_s);
// Writes the block into its place.
void seal_record(Record& record);

// Reads and checks a block (`bytes` is the block, CRC included).
Result<RecordBlock> decode_block(std::span<const std::byte> bytes);
// Checks every chunk of a whole record against its block.
Status check_payload(const RecordBlock& block, std::span<const std::byte> record);
// The sample of a record whose payload is checked.
Result<Sample> decode_sample(const RecordShape& shape, const RecordBlock& block, std::span<const std::byte> record);
// Ids and mask out of the bytes that begin at the ids and end with the mask; checked by the tensors' own CRCs.
Result<Sample> decode_tokens(const RecordBlock& block, std::span<const std::byte> ids_and_mask);

}  // namespace aerie
