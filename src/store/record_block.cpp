// The record block: numbers at fixed places, a tensor table, chunk sums, the id (docs/store.md).
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "store/checksum.h"
#include "store/record.h"

namespace aerie {
namespace {

constexpr std::string_view kMagic = "AERIEREC";
constexpr uint32_t kVersion = 1, kStatusWhole = 1;
constexpr uint64_t kFixedBytes = 128, kRowBytes = 104;
constexpr size_t kRoleBytes = 32, kDTypeBytes = 8, kMaxDimensions = 4, kCrcBytes = 4;

// Writes values at ascending places of a block that is zero before.
class Out {
 public:
  explicit Out(std::span<std::byte> into) : into_(into) {}
  template <class T>
  void number(T value) {
    std::memcpy(into_.data() + at_, &value, sizeof(T));
    at_ += sizeof(T);
  }
  void bytes(std::span<const std::byte> bytes, size_t width) {
    if (!bytes.empty()) std::memcpy(into_.data() + at_, bytes.data(), bytes.size());
    at_ += width;
  }
  void text(std::string_view text, size_t width) { bytes(as_bytes(text), width); }

 private:
  std::span<std::byte> into_;
  size_t at_ = 0;
};

// Reads them back; the caller has checked that the block is long enough.
class In {
 public:
  explicit In(std::span<const std::byte> from) : from_(from) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, from_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string text(size_t width) {
    std::string value(reinterpret_cast<const char*>(from_.data()) + at_, width);
    at_ += width;
    return value;
  }
  std::string padded_text(size_t width) {
    std::string value = text(width);
    value.resize(std::min(value.find('\0'), value.size()));
    return value;
  }
  void skip(size_t bytes) { at_ += bytes; }

 private:
  std::span<const std::byte> from_;
  size_t at_ = 0;
};

uint64_t used_bytes(uint64_t chunk_count, size_t id_bytes) {
  return kFixedBytes + kRecordTensors * kRowBytes + chunk_count * 4 + id_bytes + kCrcBytes;
}

void put_row(Out& out, const RecordTensor& tensor) {
  out.text(tensor.role, kRoleBytes);
  out.text(name_of(tensor.dtype), kDTypeBytes);
  out.number(static_cast<uint32_t>(tensor.shape.size()));
  out.number(uint32_t{0});
  for (size_t i = 0; i < kMaxDimensions; ++i) {
    out.number(i < tensor.shape.size() ? static_cast<uint64_t>(tensor.shape[i]) : uint64_t{0});
  }
  out.number(tensor.offset);
  out.number(tensor.bytes);
  out.number(tensor.crc);
  out.number(uint32_t{0});
}

Result<RecordTensor> row_of(In& in, uint64_t record_bytes) {
  RecordTensor tensor;
  tensor.role = in.padded_text(kRoleBytes);
  TRY(tensor.dtype, dtype_named(in.padded_text(kDTypeBytes)));
  const auto dimensions = in.number<uint32_t>();
  in.skip(4);
  if (dimensions > kMaxDimensions) return corrupt("tensor " + tensor.role + " has too many dimensions");
  for (size_t i = 0; i < kMaxDimensions; ++i) {
    const auto length = in.number<uint64_t>();
    if (i < dimensions) tensor.shape.push_back(static_cast<int64_t>(length));
  }
  tensor.offset = in.number<uint64_t>();
  tensor.bytes = in.number<uint64_t>();
  tensor.crc = in.number<uint32_t>();
  in.skip(4);
  TRY(const int64_t count, count_of(tensor.shape));
  if (tensor.offset > record_bytes || tensor.bytes > record_bytes - tensor.offset ||
      static_cast<uint64_t>(count) > record_bytes || static_cast<uint64_t>(count) * size_of(tensor.dtype) != tensor.bytes) {
    return corrupt("tensor " + tensor.role + " does not fit into its record");
  }
  return tensor;
}

}  // namespace

uint64_t record_block_bytes(const RecordShape& shape, int64_t token_count, size_t id_bytes) {
  // The payload's length does not depend on the block's: both are whole pages.
  const auto tensors = record_tensors(shape, token_count, 0);
  const uint64_t payload = tensors.back().offset + tensors.back().bytes;
  const uint64_t used = used_bytes((payload + kChunkBytes - 1) / kChunkBytes, id_bytes);
  return (used + kPageBytes - 1) / kPageBytes * kPageBytes;
}

void seal_record(Record& record) {
  const RecordBlock& block = record.block;
  const auto bytes = record.bytes.first(block.block_bytes);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  Out out(bytes);
  out.text(kMagic, 8);
  out.number(kVersion);
  out.number(static_cast<uint32_t>(block.block_bytes));
  out.number(block.record_bytes);
  out.number(block.file_offset);
  out.bytes(block.writer, block.writer.size());
  out.number(block.ordinal);
  out.number(uint32_t{0});  // unit
  out.number(uint32_t{0});  // attempt
  out.number(kStatusWhole);
  out.number(block.token_count);
  out.number(block.supervised_count);
  out.number(block.header_crc);
  out.number(block.id_hash.low);
  out.number(block.id_hash.high);
  out.number(block.taken_wall_s);
  out.number(static_cast<uint32_t>(block.tensors.size()));
  out.number(static_cast<uint32_t>(kChunkBytes));
  out.number(static_cast<uint32_t>(block.chunk_crcs.size()));
  out.number(static_cast<uint32_t>(block.id.size()));
  out.number(uint64_t{0});
  for (const auto& tensor : block.tensors) put_row(out, tensor);
  for (const uint32_t crc : block.chunk_crcs) out.number(crc);
  out.text(block.id, block.id.size());
  const uint32_t crc = crc32c(bytes.first(bytes.size() - kCrcBytes));
  std::memcpy(bytes.data() + bytes.size() - kCrcBytes, &crc, kCrcBytes);
}

Result<RecordBlock> decode_block(std::span<const std::byte> bytes) {
  if (bytes.size() < kPageBytes || bytes.size() % kPageBytes != 0) {
    return corrupt("a record block of " + std::to_string(bytes.size()) + " bytes");
  }
  In in(bytes);
  if (in.text(8) != kMagic) return corrupt("no record block (its magic is missing)");
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + bytes.size() - kCrcBytes, kCrcBytes);
  if (crc != crc32c(bytes.first(bytes.size() - kCrcBytes))) return corrupt("the record block's checksum does not match");
  if (const auto version = in.number<uint32_t>(); version != kVersion) {
    return invalid("record version " + std::to_string(version) + "; this program reads " + std::to_string(kVersion));
  }
  RecordBlock block;
  block.block_bytes = in.number<uint32_t>();
  block.record_bytes = in.number<uint64_t>();
  block.file_offset = in.number<uint64_t>();
  for (auto& byte : block.writer) byte = in.number<std::byte>();
  block.ordinal = in.number<uint64_t>();
  in.skip(8);  // unit, attempt
  if (in.number<uint32_t>() != kStatusWhole) return corrupt("the record is not whole");
  block.token_count = in.number<uint32_t>();
  block.supervised_count = in.number<uint32_t>();
  block.header_crc = in.number<uint32_t>();
  block.id_hash.low = in.number<uint64_t>();
  block.id_hash.high = in.number<uint64_t>();
  block.taken_wall_s = in.number<double>();
  const auto tensor_count = in.number<uint32_t>();
  const auto chunk_bytes = in.number<uint32_t>();
  const auto chunk_count = in.number<uint32_t>();
  const auto id_bytes = in.number<uint32_t>();
  in.skip(8);
  // The checksum holds, so these fail only for a block that another program wrote.
  if (block.block_bytes != bytes.size() || tensor_count != kRecordTensors || chunk_bytes != kChunkBytes ||
      id_bytes > kMaxIdBytes || used_bytes(chunk_count, id_bytes) > bytes.size() ||
      block.record_bytes <= block.block_bytes || block.record_bytes % kPageBytes != 0 ||
      (block.record_bytes - block.block_bytes + kChunkBytes - 1) / kChunkBytes != chunk_count) {
    return corrupt("the record block's sizes contradict each other");
  }
  for (uint32_t i = 0; i < tensor_count; ++i) {
    TRY(RecordTensor tensor, row_of(in, block.record_bytes));
    block.tensors.push_back(std::move(tensor));
  }
  for (uint32_t i = 0; i < chunk_count; ++i) block.chunk_crcs.push_back(in.number<uint32_t>());
  block.id = in.text(id_bytes);
  return block;
}

}  // namespace aerie
