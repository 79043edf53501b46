#include "tensor/safetensors.h"

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/python_for_tests.h"

namespace aerie {
namespace {

using testing::HasSubstr;

std::string temporary(const std::string& name) { return testing::TempDir() + "safetensors_test_" + name; }

std::string file_of(const std::string& json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + json + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> parse(const std::string& file) { return parse_safetensors_header(as_bytes(file), file.size()); }

void expect_refused(const std::string& json, size_t data_bytes, const std::string& reason) {
  auto header = parse(file_of(json, data_bytes));
  ASSERT_FALSE(header.ok()) << json;
  EXPECT_EQ(header.error().code, Code::kCorrupt) << json;
  EXPECT_THAT(header.error().what, HasSubstr(reason)) << json;
}

const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";

TEST(SafetensorsHeader, IsReadWithPaddingAndMetadataInOrderOfOffset) {
  auto header = parse(file_of(
      R"({"z":{"shape":[3],"dtype":"U8","data_offsets":[8,11]}, "__metadata__":{"k":"v","":""},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )",
      11));
  ASSERT_TRUE(header.ok()) << header.error().what;
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].name, "z");
  EXPECT_EQ(header->offsets[1], header->header_bytes + 8);
  EXPECT_EQ(header->metadata.at("k"), "v");
}

TEST(SafetensorsHeader, MayBeEmptyAndMayHoldScalarsAndEmptyTensors) {
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
  auto header = parse(file_of(
      R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"e":{"dtype":"F32","shape":[4,0],"data_offsets":[8,8]}})", 8));
  ASSERT_TRUE(header.ok()) << header.error().what;
  EXPECT_EQ(header->tensors.size(), 2u);
}

TEST(SafetensorsHeader, IsRefusedWhenItsLengthIsWrong) {
  std::string file = file_of(kGood, 11);
  EXPECT_THAT(parse(file.substr(0, 5)).error().what, HasSubstr("at least 8 bytes"));
  EXPECT_THAT(parse(file.substr(0, 60)).error().what, HasSubstr("beyond the file"));
  EXPECT_THAT(parse(std::string(64, '\0')).error().what, HasSubstr("never finished"));
  EXPECT_THAT(parse(std::string(64, '\xff')).error().what, HasSubstr("100,000,000"));
  auto short_head = parse_safetensors_header(as_bytes(file).first(20), file.size());
  EXPECT_EQ(short_head.error().code, Code::kInvalid);
}

TEST(SafetensorsHeader, IsRefusedWhenItsTextIsNoHeader) {
  expect_refused(" " + kGood, 11, "begin with '{'");
  expect_refused(kGood + "\n", 11, "end with '}'");
  expect_refused(kGood + std::string(1, '\0'), 11, "end with '}'");
  expect_refused(kGood.substr(0, 20) + std::string(1, '\0') + kGood.substr(20), 11, "end with '}'");
  expect_refused("{" + kGood, 11, "not valid JSON");
  expect_refused(kGood + "}", 11, "not valid JSON");
  expect_refused("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "not valid JSON");
}

TEST(SafetensorsHeader, IsRefusedWhenAKeyIsThereTwice) {
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
                 "tensor a is there twice");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "\"dtype\" twice");
  expect_refused(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "names a key twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ is there twice");
}

TEST(SafetensorsHeader, IsRefusedWhenAnEntryHasAnotherForm) {
  expect_refused(R"({"a":5})", 0, "tensor a holds a number");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", 1, "unknown key");
  expect_refused(R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype");
  expect_refused(R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", 1, "an array");
  expect_refused(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "a number");
  expect_refused(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "negative");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "no 64-bit integer");
  expect_refused(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "an array");
  expect_refused(R"({"a":{"dtype":"U8","shape":[{}],"data_offsets":[0,1]}})", 1, "an object");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "no pair");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, "a number");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":null}})", 1, "null");
  expect_refused(R"({"a":{"dtype":"U8","shape":true,"data_offsets":[0,1]}})", 1, "a boolean");
  expect_refused(R"({"__metadata__":{"k":1}})", 0, "__metadata__ holds a number");
  expect_refused(R"({"__metadata__":{"k":{}}})", 0, "__metadata__ holds an object");
  expect_refused(R"({"__metadata__":"x"})", 0, "__metadata__ holds a string");
}

TEST(SafetensorsHeader, IsRefusedWhenTheBytesAreNotCoveredExactly) {
  EXPECT_TRUE(parse(file_of(kGood, 11)).ok());
  expect_refused(kGood, 10, "truncated");
  expect_refused(kGood, 12, "trailing bytes");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "hole or overlap");
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3,
                 "hole or overlap");
  expect_refused(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,1]}})", 0,
                 "hole or overlap");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7, "needs 8 bytes");
}

TEST(SafetensorsHeader, IsRefusedWhenAShapeOverflows) {
  expect_refused(R"({"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "more elements");
  expect_refused(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0, "more bytes");
  expect_refused(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0, "2^63");
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += i ? ",1" : "1";
  expect_refused(R"({"a":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", 1, "64 dimensions");
}

TEST(SafetensorsHeader, OfManyBracketsIsRefusedQuickly) {
  expect_refused("{\"a\":" + std::string(1'000'000, '[') + "}", 0, "an array");
}

TEST(SafetensorsHeader, WritesWhatItReadsAndAlignsTheData) {
  const std::vector<TensorView> tensors{{"b\"\\\n\xc3\xa9", DType::kBF16, {3, 2}, {}}, {"a", DType::kU8, {0}, {}}};
  for (size_t align : {8u, 64u, 4096u}) {
    auto head = safetensors_header(tensors, {{"k", "v\n"}}, align);
    ASSERT_TRUE(head.ok()) << head.error().what;
    EXPECT_EQ(head->size() % align, 0u);
    auto header = parse(*head + std::string(12, 'x'));
    ASSERT_TRUE(header.ok()) << header.error().what;
    EXPECT_EQ(header->tensors[0].name, tensors[0].name);
    EXPECT_EQ(header->tensors[0].shape, tensors[0].shape);
    EXPECT_EQ(header->metadata.at("k"), "v\n");
  }
}

TEST(SafetensorsHeader, IsNotWrittenForNamesOrShapesThatCannotBe) {
  const TensorView x{"x", DType::kU8, {1}, {}};
  EXPECT_EQ(safetensors_header({x, x}, {}).error().code, Code::kInvalid);
  EXPECT_EQ(safetensors_header({{"__metadata__", DType::kU8, {1}, {}}}, {}).error().code, Code::kInvalid);
  EXPECT_EQ(safetensors_header({{"\xff", DType::kU8, {1}, {}}}, {}).error().code, Code::kInvalid);
  EXPECT_EQ(safetensors_header({{"x", DType::kU8, {-1}, {}}}, {}).error().code, Code::kInvalid);
  EXPECT_EQ(safetensors_header({x}, {{"k", "\xff"}}).error().code, Code::kInvalid);
}

TEST(SafetensorsFile, GivesBackWhatWasWritten) {
  const std::string path = temporary("round_trip.safetensors");
  const Tensor a = tensor_f32("a", {2, 2}, std::vector<float>{1, 2, 3, 4});
  const Tensor b = tensor_bf16("b", {3}, std::vector<float>{-1, 0, 1});
  const Tensor empty = tensor_f32("empty", {0}, {});
  ASSERT_TRUE(write_safetensors(real_file_system(), path, {a.view(), empty.view(), b.view()}, {{"format", "pt"}}).ok());
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().what;
  EXPECT_EQ(*to_floats(*file->find("a")), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(*to_floats(*file->find("b")), (std::vector<float>{-1, 0, 1}));
  EXPECT_TRUE(to_floats(*file->find("empty"))->empty());
  EXPECT_EQ(file->metadata().at("format"), "pt");
  auto missing = file->find("c");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().what, HasSubstr(path));
}

TEST(SafetensorsFile, ThatIsTruncatedIsCorruptAndNamed) {
  const std::string path = temporary("truncated.safetensors");
  std::ofstream(path, std::ios::binary) << file_of(kGood, 9);
  auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kCorrupt);
  EXPECT_THAT(file.error().what, HasSubstr(path));
}

TEST(SafetensorsFile, IsNotWrittenWhenBytesDoNotFitTheShape) {
  Tensor a = tensor_f32("a", {2}, std::vector<float>{1, 2});
  a.bytes.pop_back();
  auto status = write_safetensors(real_file_system(), temporary("bad.safetensors"), {a.view()}, {});
  EXPECT_EQ(status.error().code, Code::kInvalid);
  EXPECT_FALSE(*real_file_system().exists(temporary("bad.safetensors")));
}

TEST(SafetensorsFile, OpensInPythonsLibrary) {
  if (const auto missing = missing_python("safetensors.numpy, numpy"); !missing.empty()) GTEST_SKIP() << missing;
  const std::string path = temporary("python.safetensors");
  const Tensor a = tensor_f32("a", {2, 2}, std::vector<float>{1, 2, 3, 4});
  const Tensor b = tensor_i64("b", {1}, std::vector<int64_t>{-5});
  ASSERT_TRUE(write_safetensors(real_file_system(), path, {a.view(), b.view()}, {{"k", "v"}}).ok());
  const std::string script = temporary("python.py");
  std::ofstream(script) << R"(import sys
from safetensors import safe_open
with safe_open(sys.argv[1], framework="np") as f:
    assert f.metadata() == {"k": "v"}, f.metadata()
    assert f.get_tensor("a").tolist() == [[1, 2], [3, 4]]
    assert f.get_tensor("b").tolist() == [-5]
)";
  const auto run = run_python(script, "'" + path + "'");
  EXPECT_EQ(run.status, 0) << run.output;
}

}  // namespace
}  // namespace aerie
