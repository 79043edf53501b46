#include "store/record.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/checksum.h"
#include "store/samples_for_tests.h"

namespace aerie {
namespace {

using testing::HasSubstr;

const RecordShape kShape{32, 3, 1000, 2, DType::kBF16};

Record record_of(const Sample& sample, const RecordShape& shape = kShape) {
  auto record = encode_record(shape, sample, 5.0);
  EXPECT_TRUE(record.ok()) << record.error().what;
  record->block.file_offset = 8192;
  record->block.ordinal = 7;
  record->block.header_crc = 99;
  seal_record(*record);
  return *std::move(record);
}

// The sample, or why its bytes are refused.
Result<Sample> decoded(const RecordShape& shape, const Record& record) {
  TRY(RecordDecoder decoder, RecordDecoder::open(shape, record.block, true));
  for (auto payload = record.bytes.subspan(record.block.block_bytes); !payload.empty();) {
    const auto chunk = payload.first(std::min<size_t>(payload.size(), kChunkBytes));
    CHECKED(decoder.take(chunk));
    payload = payload.subspan(chunk.size());
  }
  return decoder.finish();
}

std::string refusal(const Sample& sample, const RecordShape& shape = kShape) {
  auto record = encode_record(shape, sample, 0);
  if (record.ok()) return "accepted";
  EXPECT_EQ(record.error().code, Code::kInvalid);
  return record.error().what;
}

TEST(Crc32c, IsTheCastagnoliSum) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  const auto chunks = crc32c_chunks(as_bytes("123456789ab"), 9);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0], 0xE3069283u);
  EXPECT_EQ(chunks[1], crc32c(as_bytes("ab")));
}

TEST(Record, GivesBackBlockAndSample) {
  for (const char* dtype : {"BF16", "F32"}) {
    const StoreHeader header = small_header(dtype);
    const RecordShape shape{32, 3, 1000, 2, header.dtype == "F32" ? DType::kF32 : DType::kBF16};
    const Sample sample = small_sample(header, "s\xc3\xa9", 37, 1);
    Record record = record_of(sample, shape);
    EXPECT_EQ(record.block.record_bytes % kPageBytes, 0u);
    auto block = decode_block(record.bytes.first(record.block.block_bytes));
    ASSERT_TRUE(block.ok()) << block.error().what;
    EXPECT_EQ(block->id, sample.id);
    EXPECT_EQ(block->ordinal, 7u);
    EXPECT_EQ(block->file_offset, 8192u);
    EXPECT_EQ(block->token_count, 37u);
    EXPECT_EQ(block->supervised_count, 19u);
    EXPECT_EQ(block->taken_wall_s, 5.0);
    EXPECT_EQ(block->header_crc, 99u);
    record.block = *block;
    auto back = decoded(shape, record);
    ASSERT_TRUE(back.ok()) << back.error().what;
    EXPECT_TRUE(same_sample(*back, sample));
  }
}

TEST(Record, OfManyChunksIsPutTogetherInBothDtypes) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const StoreHeader header = small_header(dtype == DType::kF32 ? "F32" : "BF16", 160);
    const RecordShape shape{160, 3, 1000, 2, dtype};
    const Sample sample = small_sample(header, "long", 2501, 3);  // 3.2 or 6.4 MB; rows lie across chunks
    auto back = decoded(shape, record_of(sample, shape));
    ASSERT_TRUE(back.ok()) << back.error().what;
    EXPECT_TRUE(same_sample(*back, sample));
  }
}

TEST(Record, IsMadeInTheRoomThatIsOffered) {
  const Sample sample = small_sample(small_header(), "a", 5, 1);
  std::vector<std::byte> room(1 << 20);
  auto record = encode_record(kShape, sample, 0, room);
  EXPECT_EQ(record->bytes.data(), room.data());
  EXPECT_FALSE(record->own);
  record = encode_record(kShape, sample, 0, std::span(room).first(4096));
  EXPECT_TRUE(record->own);
}

TEST(Record, StartsEveryTensorAtAMultipleOf64) {
  Record record = record_of(small_sample(small_header(), "a", 64, 1));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(record.block.tensors[i].offset % 64, 0u) << record.block.tensors[i].role;
}

TEST(Record, HasALongerBlockWhenItHasManyChunks) {
  RecordShape shape = kShape;
  EXPECT_EQ(record_block_bytes(shape, 100, 10), kPageBytes);
  shape.hidden_size = 7168;
  EXPECT_EQ(record_block_bytes(shape, 20000, 10), 2 * kPageBytes);  // 1,094 chunks
}

TEST(Record, RoundsToNearestEven) {
  Sample sample = small_sample(small_header(), "a", 2, 1);
  sample.last[0] = 1.0f + 0x1p-8f;
  sample.last[1] = 1.0f + 3 * 0x1p-8f;
  Record record = record_of(sample);
  auto back = decoded(kShape, record);
  EXPECT_EQ(back->last[0], 1.0f);
  EXPECT_EQ(back->last[1], 1.0f + 4 * 0x1p-8f);
}

TEST(Record, RefusesStatesThatCannotBeTrainedOn) {
  const Sample good = small_sample(small_header(), "a", 5, 1);
  Sample bad = good;
  bad.last[3 * 32 + 4] = std::nanf("");
  EXPECT_THAT(refusal(bad), HasSubstr("hidden_state of token 3 holds a value that is not finite"));
  bad = good;
  bad.aux[1 * 96 + 50] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(bad), HasSubstr("aux_hidden_state of token 1 holds a value that is not finite"));
  bad = good;
  bad.last[0] = std::numeric_limits<float>::max();  // rounds up to infinity in BF16
  EXPECT_THAT(refusal(bad), HasSubstr("not finite"));
  bad = good;
  for (int i = 0; i < 32; ++i) bad.aux[2 * 96 + 32 + i] = i % 2 ? 0.0f : -0.0f;
  EXPECT_THAT(refusal(bad), HasSubstr("aux_hidden_state of token 2 is all zeros"));
  bad = good;
  for (int i = 0; i < 32; ++i) bad.last[4 * 32 + i] = 0;
  EXPECT_THAT(refusal(bad), HasSubstr("hidden_state of token 4 is all zeros"));
}

TEST(Record, AllowsZeroEmbeddingsAtBoundary0Only) {
  Sample sample = small_sample(small_header(), "a", 5, 1);
  for (int i = 0; i < 32; ++i) sample.aux[2 * 96 + i] = 0;
  RecordShape shape = kShape;
  EXPECT_THAT(refusal(sample, shape), HasSubstr("all zeros"));
  shape.first_boundary = 0;
  EXPECT_EQ(refusal(sample, shape), "accepted");
}

TEST(Record, RefusesShapesIdsAndMasksThatDoNotFit) {
  const Sample good = small_sample(small_header(), "a", 5, 1);
  const auto with = [&](auto change) {
    Sample sample = good;
    change(sample);
    return refusal(sample);
  };
  EXPECT_EQ(with([](Sample&) {}), "accepted");
  EXPECT_THAT(with([](Sample& s) { s.id = ""; }), HasSubstr("id must be"));
  EXPECT_THAT(with([](Sample& s) { s.id = "\xff"; }), HasSubstr("id must be"));
  EXPECT_THAT(with([](Sample& s) { s.id = std::string(1025, 'x'); }), HasSubstr("id must be"));
  EXPECT_THAT(with([](Sample& s) { s.input_ids.clear(); }), HasSubstr("0 tokens"));
  EXPECT_THAT(with([](Sample& s) { s.loss_mask.pop_back(); }), HasSubstr("loss_mask has 4 values"));
  EXPECT_THAT(with([](Sample& s) { s.aux.pop_back(); }), HasSubstr("aux_hidden_state has 479"));
  EXPECT_THAT(with([](Sample& s) { s.last.push_back(1); }), HasSubstr("hidden_state has 161"));
  EXPECT_THAT(with([](Sample& s) { s.input_ids[2] = 1000; }), HasSubstr("token 2 has id 1000"));
  EXPECT_THAT(with([](Sample& s) { s.input_ids[2] = -1; }), HasSubstr("token 2 has id -1"));
  EXPECT_THAT(with([](Sample& s) { s.loss_mask[0] = 2; }), HasSubstr("loss_mask holds 2"));
}

TEST(Record, NoticesEveryFlippedByteOfItsBlock) {
  Record record = record_of(small_sample(small_header(), "a", 5, 1));
  const auto block = record.bytes.first(record.block.block_bytes);
  ASSERT_TRUE(decode_block(block).ok());
  for (auto& byte : block) {
    byte ^= std::byte{4};
    auto decoded = decode_block(block);
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.error().code, Code::kCorrupt);
    byte ^= std::byte{4};
  }
}

TEST(Record, NoticesEveryFlippedByteOfItsPayloadAndNamesTheTensor) {
  Record record = record_of(small_sample(small_header(), "a", 5, 1));
  for (auto& byte : record.bytes.subspan(record.block.block_bytes)) {
    byte ^= std::byte{1};
    ASSERT_EQ(decoded(kShape, record).error().code, Code::kCorrupt);
    byte ^= std::byte{1};
  }
  record.bytes[record.block.tensors[0].offset] ^= std::byte{1};
  EXPECT_THAT(decoded(kShape, record).error().what, HasSubstr("aux_hidden_state"));
}

TEST(Record, NoticesTokenIdsOfAnotherSample) {
  Record record = record_of(small_sample(small_header(), "a", 5, 1));
  record.block.id = "b";
  auto sample = decoded(kShape, record);
  ASSERT_FALSE(sample.ok());
  EXPECT_THAT(sample.error().what, HasSubstr("hash"));
}

TEST(Record, OfAnotherStoresShapeIsRefused) {
  Record record = record_of(small_sample(small_header(), "a", 5, 1));
  RecordShape other = kShape;
  other.boundary_count = 2;
  EXPECT_EQ(decoded(other, record).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace aerie
