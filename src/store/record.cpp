#include "store/record.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/text.h"
#include "store/checksum.h"

namespace aerie {
namespace {

enum { kAux, kLast, kIds, kMask, kPad };  // places in the tensor table
constexpr int64_t kMaxTokens = 1 << 27;

// Converts `values`, segments of H floats, into their place and refuses segments with a value that is not finite or
// with zeros only. There are `per_row` segments in a row; the first may be zero when `first_may_be_zero`.
template <class Word, class Convert>
Status put_states(std::span<const float> values, const RecordShape& shape, int64_t per_row, bool first_may_be_zero,
                  std::span<std::byte> into, Word exponent, Convert convert, const char* what) {
  const auto length = static_cast<size_t>(shape.hidden_size);
  auto* words = reinterpret_cast<Word*>(into.data());
  for (size_t segment = 0; segment * length < values.size(); ++segment) {
    const std::span<Word> out(words + segment * length, length);
    convert(values.subspan(segment * length, length), out);
    Word any = 0;
    unsigned not_finite = 0;
    for (const Word word : out) {
      any |= word;
      not_finite |= (word & exponent) == exponent;
    }
    const bool first = segment % static_cast<size_t>(per_row) == 0;
    const bool zero = static_cast<Word>(any << 1) == 0;  // without the sign: -0 is zero too
    if (!not_finite && (!zero || (first && first_may_be_zero))) continue;
    return invalid(std::string(what) + " of token " + std::to_string(segment / static_cast<size_t>(per_row)) +
                   (not_finite ? " holds a value that is not finite" : " is all zeros"));
  }
  return ok_status();
}

Status put_states(std::span<const float> values, const RecordShape& shape, int64_t per_row, bool first_may_be_zero,
                  std::span<std::byte> into, const char* what) {
  if (shape.dtype == DType::kBF16) {
    return put_states<uint16_t>(values, shape, per_row, first_may_be_zero, into, uint16_t{0x7f80},
                                [](std::span<const float> from, std::span<uint16_t> to) { bf16_of(from, to); }, what);
  }
  return put_states<uint32_t>(values, shape, per_row, first_may_be_zero, into, uint32_t{0x7f800000},
                              [](std::span<const float> from, std::span<uint32_t> to) {
                                std::memcpy(to.data(), from.data(), from.size_bytes());
                              }, what);
}

Status check_sample(const RecordShape& shape, const Sample& sample) {
  if (sample.id.empty() || sample.id.size() > kMaxIdBytes || !valid_utf8(sample.id)) {
    return invalid("a sample's id must be 1 to " + std::to_string(kMaxIdBytes) + " bytes of UTF-8");
  }
  const auto tokens = static_cast<int64_t>(sample.input_ids.size());
  if (tokens == 0 || tokens > kMaxTokens) return invalid("it has " + std::to_string(tokens) + " tokens");
  const auto expect = [&](const char* what, size_t got, int64_t wanted) -> Status {
    if (static_cast<int64_t>(got) == wanted) return ok_status();
    return invalid(std::string(what) + " has " + std::to_string(got) + " values, its " + std::to_string(tokens) +
                   " tokens need " + std::to_string(wanted));
  };
  CHECKED(expect("loss_mask", sample.loss_mask.size(), tokens));
  CHECKED(expect("aux_hidden_state", sample.aux.size(), tokens * shape.boundary_count * shape.hidden_size));
  CHECKED(expect("hidden_state", sample.last.size(), tokens * shape.hidden_size));
  for (size_t i = 0; i < sample.input_ids.size(); ++i) {
    if (sample.input_ids[i] < 0 || sample.input_ids[i] >= shape.vocab_size) {
      return invalid("token " + std::to_string(i) + " has id " + std::to_string(sample.input_ids[i]) +
                     ", the vocabulary has " + std::to_string(shape.vocab_size));
    }
    if (sample.loss_mask[i] > 1) return invalid("loss_mask holds " + std::to_string(sample.loss_mask[i]));
  }
  return ok_status();
}

}  // namespace

Hash128 id_hash(const std::string& id, std::span<const int32_t> input_ids) {
  std::string key(id);
  key.push_back('\0');
  key.append(reinterpret_cast<const char*>(input_ids.data()), input_ids.size_bytes());
  return xxh3_128(as_bytes(key));
}

std::vector<RecordTensor> record_tensors(const RecordShape& shape, int64_t token_count, uint64_t block_bytes) {
  std::vector<RecordTensor> tensors{
      {"aux_hidden_state", shape.dtype, {token_count, shape.boundary_count * shape.hidden_size}},
      {"hidden_state", shape.dtype, {token_count, shape.hidden_size}},
      {"input_ids", DType::kI32, {token_count}},
      {"loss_mask", DType::kU8, {token_count}},
      {"pad", DType::kU8, {0}}};
  uint64_t offset = block_bytes;
  for (auto& tensor : tensors) {
    if (&tensor == &tensors.back()) {
      tensor.shape[0] = static_cast<int64_t>((kPageBytes - offset % kPageBytes) % kPageBytes);
    }
    tensor.offset = offset;
    tensor.bytes = size_of(tensor.dtype);
    for (const int64_t length : tensor.shape) tensor.bytes *= static_cast<uint64_t>(length);
    offset += tensor.bytes;
  }
  return tensors;
}

Result<Record> encode_record(const RecordShape& shape, const Sample& sample, double taken_wall_s,
                             std::span<std::byte> room) {
  CHECKED(check_sample(shape, sample));
  const auto tokens = static_cast<int64_t>(sample.input_ids.size());
  Record record;
  RecordBlock& block = record.block;
  block.block_bytes = record_block_bytes(shape, tokens, sample.id.size());
  block.tensors = record_tensors(shape, tokens, block.block_bytes);
  block.record_bytes = block.tensors[kPad].offset + block.tensors[kPad].bytes;
  block.token_count = static_cast<uint32_t>(tokens);
  block.supervised_count = std::accumulate(sample.loss_mask.begin(), sample.loss_mask.end(), uint32_t{0});
  block.id = sample.id;
  block.id_hash = id_hash(sample.id, sample.input_ids);
  block.taken_wall_s = taken_wall_s;
  if (room.size() < block.record_bytes) {
    record.own = std::make_unique_for_overwrite<std::byte[]>(block.record_bytes);
    room = {record.own.get(), block.record_bytes};
  }
  record.bytes = room.first(block.record_bytes);

  const auto place = [&](size_t i) { return record.bytes.subspan(block.tensors[i].offset, block.tensors[i].bytes); };
  CHECKED(put_states(sample.aux, shape, shape.boundary_count, shape.first_boundary == 0, place(kAux), "aux_hidden_state"));
  CHECKED(put_states(sample.last, shape, 1, false, place(kLast), "hidden_state"));
  std::memcpy(place(kIds).data(), sample.input_ids.data(), place(kIds).size());
  std::memcpy(place(kMask).data(), sample.loss_mask.data(), place(kMask).size());
  std::fill(place(kPad).begin(), place(kPad).end(), std::byte{0});
  for (size_t i = 0; i < block.tensors.size(); ++i) block.tensors[i].crc = crc32c(place(i));
  block.chunk_crcs = crc32c_chunks(record.bytes.subspan(block.block_bytes), kChunkBytes);
  return record;
}

namespace {

// The table must be the one that this store's shape gives, or the record is of another store.
Status check_table(const RecordShape& shape, const RecordBlock& block) {
  const auto expected = record_tensors(shape, block.token_count, block.block_bytes);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& a = expected[i];
    const auto& b = block.tensors[i];
    if (a.role != b.role || a.dtype != b.dtype || a.shape != b.shape || a.offset != b.offset) {
      return corrupt("tensor " + b.role + " " + shape_text(b.shape) + " does not fit the store, which has " + a.role + " " +
                     shape_text(a.shape));
    }
  }
  return ok_status();
}

// The part of a tensor that lies in a chunk, and where it belongs in the tensor (both in bytes).
struct Piece {
  std::span<const std::byte> bytes;
  uint64_t at = 0;
};
Piece piece_of(const RecordTensor& tensor, uint64_t chunk_offset, std::span<const std::byte> chunk) {
  const uint64_t begin = std::max(tensor.offset, chunk_offset);
  const uint64_t end = std::min(tensor.offset + tensor.bytes, chunk_offset + chunk.size());
  if (begin >= end) return {};
  return {chunk.subspan(begin - chunk_offset, end - begin), begin - tensor.offset};
}

// Records start at whole pages and chunks are even, so that no element is ever cut.
void put_floats(const Piece& piece, DType dtype, std::vector<float>& into) {
  if (piece.bytes.empty()) return;
  if (dtype == DType::kBF16) {
    const size_t count = piece.bytes.size() / 2;
    floats_of_bf16({reinterpret_cast<const uint16_t*>(piece.bytes.data()), count}, std::span(into).subspan(piece.at / 2, count));
  } else {
    std::memcpy(into.data() + piece.at / sizeof(float), piece.bytes.data(), piece.bytes.size());
  }
}

template <class T>
void put_bytes(const Piece& piece, std::vector<T>& into) {
  if (!piece.bytes.empty()) std::memcpy(reinterpret_cast<std::byte*>(into.data()) + piece.at, piece.bytes.data(), piece.bytes.size());
}

Status check_hash(const RecordBlock& block, const Sample& sample) {
  if (id_hash(sample.id, sample.input_ids) == block.id_hash) return ok_status();
  return corrupt("its token ids are not those that its hash was made of");
}

}  // namespace

RecordDecoder::RecordDecoder(const RecordBlock& block, DType dtype, bool with_states)
    : block_(&block), dtype_(dtype), with_states_(with_states) {
  sample_.id = block.id;
  sample_.input_ids.resize(block.token_count);
  sample_.loss_mask.resize(block.token_count);
  if (!with_states) return;
  sample_.aux.resize(block.tensors[kAux].bytes / size_of(dtype));
  sample_.last.resize(block.tensors[kLast].bytes / size_of(dtype));
}

Result<RecordDecoder> RecordDecoder::open(const RecordShape& shape, const RecordBlock& block, bool with_states) {
  CHECKED(check_table(shape, block));
  return RecordDecoder(block, shape.dtype, with_states);
}

Status RecordDecoder::take(std::span<const std::byte> chunk) {
  const uint64_t offset = block_->block_bytes + at_;  // in the record
  if (crc32c(chunk) != block_->chunk_crcs[at_ / kChunkBytes]) {
    std::string hurt;
    for (const auto& tensor : block_->tensors) {
      if (!piece_of(tensor, offset, chunk).bytes.empty()) hurt += (hurt.empty() ? "" : ", ") + tensor.role;
    }
    return corrupt("the checksum of " + std::to_string(chunk.size()) + " bytes at file offset " +
                   std::to_string(block_->file_offset + offset) + " (" + hurt + ") does not match");
  }
  const auto piece = [&](size_t i) { return piece_of(block_->tensors[i], offset, chunk); };
  if (with_states_) {
    put_floats(piece(kAux), dtype_, sample_.aux);
    put_floats(piece(kLast), dtype_, sample_.last);
  }
  put_bytes(piece(kIds), sample_.input_ids);
  put_bytes(piece(kMask), sample_.loss_mask);
  at_ += chunk.size();
  return ok_status();
}

Result<Sample> RecordDecoder::finish() {
  CHECKED(check_hash(*block_, sample_));
  return std::move(sample_);
}

Result<Sample> decode_tokens(const RecordBlock& block, std::span<const std::byte> ids_and_mask) {
  const auto& ids = block.tensors[kIds];
  const auto& mask = block.tensors[kMask];
  if (ids.bytes != block.token_count * sizeof(int32_t) || mask.bytes != block.token_count ||
      ids.bytes + mask.bytes != ids_and_mask.size()) {
    return corrupt("its tensor table does not fit its " + std::to_string(block.token_count) + " tokens");
  }
  const auto id_bytes = ids_and_mask.first(ids.bytes);
  const auto mask_bytes = ids_and_mask.subspan(ids.bytes);
  if (crc32c(id_bytes) != ids.crc) return corrupt("checksum of input_ids does not match");
  if (crc32c(mask_bytes) != mask.crc) return corrupt("checksum of loss_mask does not match");
  Sample sample;
  sample.id = block.id;
  sample.input_ids.resize(block.token_count);
  sample.loss_mask.resize(block.token_count);
  put_bytes({id_bytes, 0}, sample.input_ids);
  put_bytes({mask_bytes, 0}, sample.loss_mask);
  CHECKED(check_hash(block, sample));
  return sample;
}

}  // namespace aerie
