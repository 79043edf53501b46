#include "tensor/gguf.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace aerie {
namespace {

using testing::HasSubstr;

std::string temporary(const std::string& name) { return testing::TempDir() + "gguf_test_" + name; }

template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
std::string text(const std::string& value) { return le<uint64_t>(value.size()) + value; }
std::string key_u32(const std::string& key, uint32_t value) { return text(key) + le<uint32_t>(4) + le(value); }
std::string info(const std::string& name, std::vector<int64_t> ne, uint32_t type, uint64_t offset) {
  std::string out = text(name) + le<uint32_t>(static_cast<uint32_t>(ne.size()));
  for (int64_t n : ne) out += le(n);
  return out + le(type) + le(offset);
}
std::string file_of(uint64_t tensors, uint64_t keys, const std::string& body, const std::string& data = "",
                    uint64_t alignment = 32) {
  std::string file = "GGUF" + le<uint32_t>(3) + le(tensors) + le(keys) + body;
  file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
  return file + data;
}

Result<GgufFile> parse(const std::string& file) { return GgufFile::parse(as_bytes(file), "x.gguf"); }

void expect_refused(const std::string& file, const std::string& reason, Code code = Code::kCorrupt) {
  auto parsed = parse(file);
  ASSERT_FALSE(parsed.ok()) << reason;
  EXPECT_EQ(parsed.error().code, code) << parsed.error().what;
  EXPECT_THAT(parsed.error().what, HasSubstr(reason));
  EXPECT_THAT(parsed.error().what, HasSubstr("x.gguf"));
}

TEST(Gguf, IsReadWithAllValueTypes) {
  std::string body;
  body += text("u8") + le<uint32_t>(0) + le<uint8_t>(200);
  body += text("i8") + le<uint32_t>(1) + le<int8_t>(-3);
  body += text("u16") + le<uint32_t>(2) + le<uint16_t>(60000);
  body += text("i16") + le<uint32_t>(3) + le<int16_t>(-30000);
  body += key_u32("u32", 4000000000u);
  body += text("i32") + le<uint32_t>(5) + le<int32_t>(-2000000000);
  body += text("f32") + le<uint32_t>(6) + le<float>(1e-5f);
  body += text("bool") + le<uint32_t>(7) + le<uint8_t>(1);
  body += text("string") + le<uint32_t>(8) + text("hello");
  body += text("array") + le<uint32_t>(9) + le<uint32_t>(8) + le<uint64_t>(2) + text("") + text("b");
  body += text("u64") + le<uint32_t>(10) + le<uint64_t>(UINT64_MAX);
  body += text("i64") + le<uint32_t>(11) + le<int64_t>(INT64_MIN);
  body += text("f64") + le<uint32_t>(12) + le<double>(0.1);
  body += text("empty") + le<uint32_t>(9) + le<uint32_t>(5) + le<uint64_t>(0);
  auto file = parse(file_of(0, 14, body));
  ASSERT_TRUE(file.ok()) << file.error().what;
  EXPECT_EQ(*file->integer("u8"), 200);
  EXPECT_EQ(*file->integer("i8"), -3);
  EXPECT_EQ(*file->integer("u16"), 60000);
  EXPECT_EQ(*file->integer("i16"), -30000);
  EXPECT_EQ(*file->integer("u32"), 4000000000);
  EXPECT_EQ(*file->integer("i32"), -2000000000);
  EXPECT_EQ(static_cast<float>(*file->number("f32")), 1e-5f);
  EXPECT_EQ(std::get<bool>(file->find("bool")->values[0]), true);
  EXPECT_EQ(*file->text("string"), "hello");
  ASSERT_EQ(file->find("array")->values.size(), 2u);
  EXPECT_EQ(std::get<std::string>(file->find("array")->values[1]), "b");
  EXPECT_EQ(static_cast<uint64_t>(*file->integer("u64")), UINT64_MAX);
  EXPECT_EQ(*file->integer("i64"), INT64_MIN);
  EXPECT_EQ(*file->number("f64"), 0.1);
  EXPECT_EQ(*file->number("u8"), 200.0);
  EXPECT_TRUE(file->find("empty")->values.empty());
  EXPECT_EQ(file->find("nothing"), nullptr);
  EXPECT_EQ(file->integer("nothing").error().code, Code::kNotFound);
  EXPECT_EQ(file->integer("string").error().code, Code::kInvalid);
  EXPECT_EQ(file->text("array").error().code, Code::kInvalid);
  EXPECT_THAT(file->text("u8").error().what, HasSubstr("x.gguf"));
}

TEST(Gguf, HonoursTheAlignmentThatTheFileNames) {
  const std::string body = key_u32("general.alignment", 64) + info("a", {4}, 0, 0) + info("b", {4}, 0, 64);
  const std::string bytes = file_of(2, 1, body, std::string(64, 'a') + std::string(16, 'b'), 64);
  auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().what;
  EXPECT_EQ(static_cast<char>(file->find_tensor("b")->bytes[0]), 'b');
  EXPECT_EQ(file->find_tensor("b")->bytes.size(), 16u);
  EXPECT_EQ(file->find_tensor("c"), nullptr);
}

TEST(Gguf, IsRefusedWhenItIsSomethingElse) {
  expect_refused("", "not a GGUF", Code::kInvalid);
  expect_refused("PK\x03\x04 some zip file", "not a GGUF", Code::kInvalid);
  expect_refused("GGUF" + le<uint32_t>(1) + std::string(64, '\0'), "version 1", Code::kInvalid);
  expect_refused("GGUF" + le<uint32_t>(0x03000000) + std::string(64, '\0'), "big-endian", Code::kInvalid);
  EXPECT_TRUE(parse("GGUF" + le<uint32_t>(2) + std::string(16, '\0')).ok());
}

TEST(Gguf, IsRefusedWhenItLiesAboutItsCounts) {
  expect_refused(file_of(1ull << 60, 0, ""), "do not fit");
  expect_refused(file_of(0, 1ull << 60, ""), "do not fit");
  expect_refused(file_of(1, 0, ""), "do not fit");
  expect_refused("GGUF" + le<uint32_t>(3) + "abc", "the file ends inside a tensor count");
}

TEST(Gguf, IsRefusedWhenItLiesAboutALength) {
  expect_refused(file_of(0, 1, le<uint64_t>(1ull << 62) + "key and more bytes"), "ends inside a metadata key");
  expect_refused(file_of(0, 1, le<uint64_t>(70000) + std::string(80000, 'k')), "65535");
  expect_refused(file_of(0, 1, text("s") + le<uint32_t>(8) + le<uint64_t>(UINT64_MAX)), "ends inside a string");
  expect_refused(file_of(0, 1, text("a") + le<uint32_t>(9) + le<uint32_t>(4) + le<uint64_t>(1ull << 62)), "an array of");
  expect_refused(file_of(0, 1, text("a") + le<uint32_t>(9) + le<uint32_t>(8) + le<uint64_t>(3) + text("x")), "metadata key a");
  expect_refused(file_of(0, 1, text("k") + le<uint32_t>(12) + le<uint32_t>(0)).substr(0, 38), "ends inside");
}

TEST(Gguf, IsRefusedForMetadataThatCannotBe) {
  expect_refused(file_of(0, 2, key_u32("k", 1) + key_u32("k", 2)), "there twice");
  expect_refused(file_of(0, 1, key_u32("", 1)), "empty");
  expect_refused(file_of(0, 1, text("k") + le<uint32_t>(13) + le<uint64_t>(0)), "unknown metadata type 13");
  expect_refused(file_of(0, 1, text("k") + le<uint32_t>(9) + le<uint32_t>(99) + le<uint64_t>(0)), "unknown metadata type 99");
  expect_refused(file_of(0, 1, text("k") + le<uint32_t>(9) + le<uint32_t>(9) + le<uint64_t>(1)), "array of arrays");
  expect_refused(file_of(0, 1, text("k") + le<uint32_t>(7) + le<uint8_t>(2)), "boolean of value 2");
  expect_refused(file_of(0, 1, key_u32("general.alignment", 0)), "power of two");
  expect_refused(file_of(0, 1, key_u32("general.alignment", 24)), "power of two");
  expect_refused(file_of(0, 1, text("general.alignment") + le<uint32_t>(8) + text("32")), "no u32");
  expect_refused(file_of(0, 1, text("general.alignment") + le<uint32_t>(9) + le<uint32_t>(4) + le<uint64_t>(0)), "no u32");
}

TEST(Gguf, RefusesMetadataOfAbsurdlyManyValues) {
  expect_refused(file_of(0, 1, text("k") + le<uint32_t>(9) + le<uint32_t>(0) + le<uint64_t>(8'388'609) +
                                   std::string(8'388'609, '\0')), "8,388,608");
}

TEST(Gguf, IsRefusedForTensorsThatCannotBe) {
  const std::string data(64, 'x');
  EXPECT_TRUE(parse(file_of(1, 0, info("a", {4, 2}, 0, 0), data)).ok());
  expect_refused(file_of(2, 0, info("a", {4}, 0, 0) + info("a", {4}, 0, 32), data), "tensor a is there twice");
  expect_refused(file_of(1, 0, info("a", {}, 0, 0), data), "0 dimensions");
  expect_refused(file_of(1, 0, info("a", {1, 1, 1, 1, 1}, 0, 0), data), "5 dimensions");
  expect_refused(file_of(1, 0, info("a", {-4}, 0, 0), data), "negative");
  expect_refused(file_of(1, 0, info("a", {1ll << 40, 1ll << 40}, 0, 0), data), "more elements");
  expect_refused(file_of(1, 0, info("a", {1ll << 62}, 0, 0), data), "more bytes");
  expect_refused(file_of(1, 0, info("a", {4}, 5, 0), data), "type 5");
  expect_refused(file_of(1, 0, info("a", {33}, 2, 0), data), "multiple of the block");
  expect_refused(file_of(1, 0, info("a", {4}, 0, 8), data), "alignment");
  expect_refused(file_of(1, 0, info("a", {17}, 0, 0), data), "truncated");
  expect_refused(file_of(1, 0, info("a", {4}, 0, 96), data), "truncated");
  expect_refused(file_of(1, 0, info("a", {4}, 0, UINT64_MAX - 31), data), "truncated");
  expect_refused(file_of(2, 0, info("a", {16}, 0, 0) + info("b", {8}, 0, 32), data), "a and b overlap");
  expect_refused(file_of(1, 0, info(std::string(64, 'n'), {4}, 0, 0), data), "limit is 63");
}

TEST(Gguf, TruncatedAnywhereInItsHeadIsRefused) {
  const std::string body = key_u32("k", 1) + text("s") + le<uint32_t>(8) + text("value") + info("a", {4}, 0, 0);
  const std::string file = file_of(1, 2, body, std::string(16, 'x'));
  ASSERT_TRUE(parse(file).ok());
  for (size_t length = 0; length < file.size(); ++length) EXPECT_FALSE(parse(file.substr(0, length)).ok()) << length;
}

TEST(GgmlBytes, KnowsBlocksOfQuantisedTypes) {
  EXPECT_EQ(*ggml_bytes(0, {10, 3}), 120u);
  EXPECT_EQ(*ggml_bytes(1, {10}), 20u);
  EXPECT_EQ(*ggml_bytes(3, {576, 2}), 576u / 32 * 20 * 2);
  EXPECT_EQ(*ggml_bytes(8, {576}), 576u / 32 * 34);
  EXPECT_EQ(*ggml_bytes(14, {256}), 210u);
  EXPECT_EQ(*ggml_bytes(27, {5}), 40u);
  EXPECT_EQ(*ggml_bytes(30, {5}), 10u);
  EXPECT_EQ(ggml_bytes(4, {32}).error().code, Code::kInvalid);
  EXPECT_EQ(ggml_bytes(0, {}).error().code, Code::kInvalid);
}

GgufTensor tensor_of(const std::string& name, GgmlType type, std::vector<int64_t> ne, const Tensor& tensor) {
  return {name, static_cast<uint32_t>(type), std::move(ne), tensor.bytes};
}

TEST(GgufWriter, GivesBackWhatWasWritten) {
  const std::string path = temporary("round_trip.gguf");
  const Tensor a = tensor_f32("", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor b = tensor_i64("", {3}, std::vector<int64_t>{7, 8, 1ll << 40});
  const Tensor c = tensor_bf16("", {5}, std::vector<float>{1, 2, 3, 4, 5});
  std::vector<std::pair<std::string, GgufValue>> metadata{
      {"general.architecture", gguf_text("eagle3")}, {"eagle3.block_count", gguf_u32(1)},
      {"eagle3.epsilon", gguf_f32(1e-5f)},           {"eagle3.norm_before_residual", gguf_bool(true)},
      {"eagle3.target_layers", gguf_i32_array({2, 15, 27})},
      {"tokens", GgufValue{9, 8, {std::string("a"), std::string("b\0c", 3)}}},
      {"u64", GgufValue{10, 0, {int64_t{-1}}}},      {"f64", GgufValue{12, 0, {0.1}}}};
  ASSERT_TRUE(write_gguf(real_file_system(), path, metadata,
                         {tensor_of("a.weight", GgmlType::kF32, {3, 2}, a), tensor_of("d2t", GgmlType::kI64, {3}, b),
                          tensor_of("c", GgmlType::kBF16, {5}, c)}).ok());
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().what;
  ASSERT_EQ(file->metadata().size(), metadata.size());
  for (size_t i = 0; i < metadata.size(); ++i) {
    EXPECT_EQ(file->metadata()[i].first, metadata[i].first);
    EXPECT_EQ(file->metadata()[i].second.type, metadata[i].second.type);
    EXPECT_EQ(file->metadata()[i].second.values, metadata[i].second.values);
  }
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].ne, (std::vector<int64_t>{3, 2}));
  EXPECT_TRUE(std::ranges::equal(file->find_tensor("a.weight")->bytes, a.bytes));
  EXPECT_TRUE(std::ranges::equal(file->find_tensor("d2t")->bytes, b.bytes));
  EXPECT_TRUE(std::ranges::equal(file->find_tensor("c")->bytes, c.bytes));
}

TEST(GgufWriter, RefusesWhatCannotBeRead) {
  const Tensor a = tensor_f32("", {4}, std::vector<float>{1, 2, 3, 4});
  const auto good = tensor_of("a", GgmlType::kF32, {4}, a);
  const auto refused = [&](std::vector<std::pair<std::string, GgufValue>> metadata, std::vector<GgufTensor> tensors) {
    auto status = write_gguf(real_file_system(), temporary("refused.gguf"), metadata, tensors);
    return !status.ok() && status.error().code == Code::kInvalid;
  };
  EXPECT_TRUE(refused({}, {good, good}));
  EXPECT_TRUE(refused({}, {tensor_of("a", GgmlType::kF32, {5}, a)}));
  EXPECT_TRUE(refused({}, {tensor_of("a", GgmlType::kQ4_0, {4}, a)}));
  EXPECT_TRUE(refused({}, {tensor_of(std::string(64, 'n'), GgmlType::kF32, {4}, a)}));
  EXPECT_TRUE(refused({}, {tensor_of("a", GgmlType::kF32, {1, 1, 1, 1, 4}, a)}));
  EXPECT_TRUE(refused({{"k", gguf_u32(1)}, {"k", gguf_u32(2)}}, {good}));
  EXPECT_TRUE(refused({{"", gguf_u32(1)}}, {good}));
  EXPECT_TRUE(refused({{"general.alignment", gguf_u32(64)}}, {good}));
  EXPECT_TRUE(refused({{"k", GgufValue{4, 0, {int64_t{-1}}}}}, {good}));
  EXPECT_TRUE(refused({{"k", GgufValue{4, 0, {0.5}}}}, {good}));
  EXPECT_TRUE(refused({{"k", GgufValue{4, 0, {}}}}, {good}));
  EXPECT_TRUE(refused({{"k", GgufValue{9, 9, {}}}}, {good}));
  EXPECT_FALSE(*real_file_system().exists(temporary("refused.gguf")));
}

TEST(Gguf, ReadsTheRealModel) {
  const char* model = std::getenv("AERIE_MODEL");
  if (!model || !real_file_system().info(model).ok()) GTEST_SKIP() << "AERIE_MODEL names no file (scripts/bootstrap)";
  auto file = GgufFile::open(model);
  ASSERT_TRUE(file.ok()) << file.error().what;
  EXPECT_EQ(*file->text("general.architecture"), "llama");
  EXPECT_EQ(*file->integer("llama.embedding_length"), 576);
  EXPECT_EQ(file->find("tokenizer.ggml.tokens")->values.size(), 49152u);
  EXPECT_EQ(file->tensors().size(), 272u);
  ASSERT_NE(file->find_tensor("token_embd.weight"), nullptr);
  EXPECT_EQ(file->find_tensor("blk.29.ffn_down.weight")->ne, (std::vector<int64_t>{1536, 576}));
  // From the first tensor on, the file is tensors and their padding, nothing else.
  uint64_t padded_bytes = 0;
  const std::byte* first = file->tensors()[0].bytes.data();
  const std::byte* end = first;
  for (const auto& tensor : file->tensors()) {
    padded_bytes += (tensor.bytes.size() + 31) / 32 * 32;
    first = std::min(first, tensor.bytes.data());
    end = std::max(end, tensor.bytes.data() + tensor.bytes.size());
  }
  EXPECT_EQ(static_cast<uint64_t>(end - first), padded_bytes);
  auto mapped = MappedFile::open(model);
  ASSERT_TRUE(mapped.ok());
  const uint64_t head_bytes = mapped->bytes().size() - padded_bytes;
  EXPECT_EQ(std::memcmp(mapped->bytes().data() + head_bytes, first, 4096), 0);
}

TEST(Gguf, OpensWithASentenceForAMissingFileAndForATruncatedModel) {
  EXPECT_EQ(GgufFile::open(temporary("absent.gguf")).error().code, Code::kNotFound);
  const std::string path = temporary("cut.gguf");
  std::ofstream(path, std::ios::binary) << file_of(1, 0, info("a", {4}, 0, 0), "xx");
  auto cut = GgufFile::open(path);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  EXPECT_THAT(cut.error().what, HasSubstr(path));
}

}  // namespace
}  // namespace aerie
