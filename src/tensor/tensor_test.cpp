#include "tensor/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace aerie {
namespace {

using testing::HasSubstr;

// The representable value nearest to `value` by search: the slow definition of rounding to nearest even.
template <class Decode>
uint16_t nearest_by_search(double value, Decode decode, uint16_t last_finite) {
  uint16_t best = 0;
  for (uint32_t bits = 0; bits <= last_finite; ++bits) {
    const double here = std::abs(double{decode(static_cast<uint16_t>(bits))} - value);
    const double there = std::abs(double{decode(best)} - value);
    if (here < there || (here == there && bits % 2 == 0)) best = static_cast<uint16_t>(bits);
  }
  return best;
}

TEST(F16, SurvivesTheWayToFloatAndBackForEveryBitPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_of_f16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_of_f16(f16_of(value)))) << bits;
    } else {
      EXPECT_EQ(f16_of(value), bits);
    }
  }
}

TEST(F16, RoundsToNearestEvenInEveryRange) {
  for (double value : {1.0 + 0x1p-11, 1.0 + 3 * 0x1p-11, 1.0 + 0x1p-11 + 0x1p-20, 2049.0, 2051.0, 0x1p-25, 1.5 * 0x1p-24,
                       0x1p-14 - 0x1p-25, 0x1p-15 + 0x1p-25, 65503.0, 0.1, 3.14159, 65519.0}) {
    EXPECT_EQ(f16_of(static_cast<float>(value)), nearest_by_search(static_cast<float>(value), float_of_f16, 0x7bff)) << value;
  }
}

TEST(F16, OverflowsToInfinityFromTheMiddleOfTheLastStepOn) {
  EXPECT_EQ(f16_of(65519.996f), 0x7bff);
  EXPECT_EQ(f16_of(65520.0f), 0x7c00);
  EXPECT_EQ(f16_of(-1e30f), 0xfc00);
  EXPECT_EQ(f16_of(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_TRUE(std::isnan(float_of_f16(f16_of(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BF16, SurvivesTheWayToFloatAndBackForEveryBitPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_of_bf16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of(value)))) << bits;
    } else {
      EXPECT_EQ(bf16_of(value), bits);
    }
  }
}

TEST(BF16, RoundsToNearestEven) {
  for (float value : {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 1.0f + 0x1p-8f + 0x1p-20f, 0.1f, 24759.0f, 0x1p-130f}) {
    EXPECT_EQ(bf16_of(value), nearest_by_search(value, float_of_bf16, 0x7f7f)) << value;
  }
  EXPECT_EQ(bf16_of(-0.0f), 0x8000);
  EXPECT_EQ(bf16_of(std::numeric_limits<float>::max()), 0x7f80);  // rounds up to infinity
}

TEST(BF16, KeepsANaNWhosePayloadSitsInTheLowBits) {
  EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of(std::bit_cast<float>(0xffffffffu)))));
}

TEST(BF16, OfManyValuesIsTheSameAsOfEach) {
  std::vector<float> values;
  for (uint32_t i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(i * 42949u));
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  std::vector<uint16_t> bits(values.size());
  std::vector<float> back(values.size());
  bf16_of(values, bits);
  floats_of_bf16(bits, back);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(bits[i], bf16_of(values[i])) << values[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(float_of_bf16(bits[i]))) << values[i];
  }
}

TEST(DTypes, AreFoundByTheirNamesAndUnknownOnesAreNamed) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    const auto dtype = static_cast<DType>(i);
    auto found = dtype_named(name_of(dtype));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, dtype);
  }
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kI64), 8u);
  auto unknown = dtype_named("F7");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().what, HasSubstr("F7"));
}

TEST(Shapes, AreCountedWithoutOverflow) {
  EXPECT_EQ(*count_of({}), 1);
  EXPECT_EQ(*count_of({2, 3, 4}), 24);
  EXPECT_EQ(*count_of({5, 0}), 0);
  EXPECT_EQ(shape_text({2, 3}), "[2, 3]");
  EXPECT_EQ(count_of({-1}).error().code, Code::kInvalid);
  EXPECT_EQ(count_of({1ll << 40, 1ll << 40}).error().code, Code::kInvalid);
}

TEST(Tensors, GiveTheirValuesBackAsFloats) {
  const std::vector<float> values{0, -1.5f, 24759.0f, 0x1p-20f};
  EXPECT_EQ(*to_floats(tensor_f32("x", {4}, values).view()), values);
  const auto rounded = *to_floats(tensor_bf16("x", {2, 2}, values).view());
  EXPECT_EQ(rounded[1], -1.5f);
  EXPECT_EQ(rounded[2], float_of_bf16(bf16_of(24759.0f)));
  EXPECT_TRUE(to_floats(tensor_f32("empty", {0, 3}, {}).view())->empty());
}

TEST(Tensors, GiveTheirValuesBackAsIntegers) {
  EXPECT_EQ(*to_int64(tensor_i64("x", {2}, std::vector<int64_t>{-1, 1ll << 40}).view()), (std::vector<int64_t>{-1, 1ll << 40}));
  EXPECT_EQ(*to_int64(tensor_i32("x", {2}, std::vector<int32_t>{-7, 9}).view()), (std::vector<int64_t>{-7, 9}));
}

TEST(Tensors, AreReadFromBytesThatAreNotAligned) {
  std::vector<std::byte> bytes(9);
  const float value = 2.5f;
  std::memcpy(bytes.data() + 1, &value, 4);
  std::memcpy(bytes.data() + 5, &value, 4);
  const TensorView view{"x", DType::kF32, {2}, std::span(bytes).subspan(1)};
  EXPECT_EQ(*to_floats(view), (std::vector<float>{2.5f, 2.5f}));
}

TEST(Tensors, OfTheWrongKindOrSizeAreRefusedByName) {
  auto wrong_kind = to_floats(tensor_i32("ids", {1}, std::vector<int32_t>{1}).view());
  ASSERT_FALSE(wrong_kind.ok());
  EXPECT_THAT(wrong_kind.error().what, HasSubstr("ids"));
  EXPECT_EQ(to_int64(tensor_f32("x", {1}, std::vector<float>{1}).view()).error().code, Code::kInvalid);
  Tensor short_one = tensor_f32("short", {2}, std::vector<float>{1, 2});
  short_one.bytes.pop_back();
  auto wrong_size = to_floats(short_one.view());
  ASSERT_FALSE(wrong_size.ok());
  EXPECT_THAT(wrong_size.error().what, HasSubstr("7 bytes"));
}

}  // namespace
}  // namespace aerie
