// Named arrays as views of bytes: what safetensors and GGUF files hold, and what the store keeps.
//
// Row-major, little endian. A TensorView borrows its bytes; whoever gives it says for how long. A Tensor owns them.
// Dtype names are safetensors' ("BF16", "F32", "I64", ...).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace aerie {

enum class DType { kBool, kU8, kI8, kF8E4M3, kF8E5M2, kU16, kI16, kF16, kBF16, kU32, kI32, kF32, kU64, kI64, kF64 };

size_t size_of(DType dtype);  // bytes of one element
std::string_view name_of(DType dtype);
Result<DType> dtype_named(std::string_view name);

using Shape = std::vector<int64_t>;
// "[2, 3]"
std::string shape_text(const Shape& shape);
// Number of elements; kInvalid on a negative dimension or overflow of int64.
Result<int64_t> count_of(const Shape& shape);

struct TensorView {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::span<const std::byte> bytes;
};

struct Tensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::byte> bytes;
  TensorView view() const { return {name, dtype, shape, bytes}; }
};

Tensor tensor_f32(std::string name, Shape shape, std::span<const float> values);
Tensor tensor_bf16(std::string name, Shape shape, std::span<const float> values);  // rounded to nearest even
Tensor tensor_i64(std::string name, Shape shape, std::span<const int64_t> values);
Tensor tensor_i32(std::string name, Shape shape, std::span<const int32_t> values);

// F32, F16, BF16 and F64 as floats; kInvalid for other dtypes, naming the tensor.
Result<std::vector<float>> to_floats(const TensorView& tensor);
// I64 and I32 as int64.
Result<std::vector<int64_t>> to_int64(const TensorView& tensor);

uint16_t bf16_of(float value);  // round to nearest even; NaN stays NaN
float float_of_bf16(uint16_t bits);
uint16_t f16_of(float value);   // IEEE half, round to nearest even, overflow to infinity
float float_of_f16(uint16_t bits);
// The same for many at once; both spans have the same length.
void bf16_of(std::span<const float> values, std::span<uint16_t> into);
void floats_of_bf16(std::span<const uint16_t> bits, std::span<float> into);

}  // namespace aerie
