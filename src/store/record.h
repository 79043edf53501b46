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
  std::span<std::byte> bytes;        // block.record_bytes; the block's place holds nothing until seal_record()
  std::unique_ptr<std::byte[]> own;  // holds the bytes when the room that was offered was too small
};

Hash128 id_hash(const std::string& id, std::span<const int32_t> input_ids);

// The five tensors behind the block, laid out for a sample of T tokens; CRCs are 0.
std::vector<RecordTensor> record_tensors(const RecordShape& shape, int64_t token_count, uint64_t block_bytes);
// Bytes of the block of a sample with this id and number of tokens.
uint64_t record_block_bytes(const RecordShape& shape, int64_t token_count, size_t id_bytes);

// Checks and converts a sample, into `room` (which must outlive the record) when that is large enough. File offset,
// ordinal, writer and header CRC are the caller's to set.
Result<Record> encode_record(const RecordShape& shape, const Sample& sample, double taken_wall_s,
                             std::span<std::byte> room = {});
// Writes the block into its place.
void seal_record(Record& record);

// Reads and checks a block (`bytes` is the block, CRC included).
Result<RecordBlock> decode_block(std::span<const std::byte> bytes);

// Takes the payload of a record chunk by chunk, checks each, and puts the sample together: no second copy of the record
// is ever in memory. The block is borrowed.
class RecordDecoder {
 public:
  // kCorrupt when the block's table is not what the store's shape gives. Without states only the bytes are checked.
  static Result<RecordDecoder> open(const RecordShape& shape, const RecordBlock& block, bool with_states);
  // The chunks in order: kChunkBytes each, the last what remains.
  Status take(std::span<const std::byte> chunk);
  // The sample, after the last chunk; kCorrupt when its token ids are not those of the id hash.
  Result<Sample> finish();

 private:
  RecordDecoder(const RecordBlock& block, DType dtype, bool with_states);
  const RecordBlock* block_;
  DType dtype_;
  bool with_states_;
  uint64_t at_ = 0;  // in the payload
  Sample sample_;
};
// Ids and mask out of the bytes that begin at the ids and end with the mask; checked by the tensors' own CRCs.
Result<Sample> decode_tokens(const RecordBlock& block, std::span<const std::byte> ids_and_mask);

}  // namespace aerie
