#include "tensor/tensor.h"

#include <array>
#include <bit>
#include <cstring>

// Compiles a loop twice and picks by CPU: SSE2 alone, which is all that x86-64 promises, narrows integers slowly. Not
// under sanitizers, whose start-up comes after the choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define AERIE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define AERIE_CLONES
#endif

namespace aerie {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian and read in place");

struct DTypeRow {
  DType dtype;
  std::string_view name;
  size_t size_bytes;
};
constexpr std::array<DTypeRow, 15> kDTypes{{
    {DType::kBool, "BOOL", 1}, {DType::kU8, "U8", 1},   {DType::kI8, "I8", 1},   {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kF8E5M2, "F8_E5M2", 1}, {DType::kU16, "U16", 2}, {DType::kI16, "I16", 2}, {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2}, {DType::kU32, "U32", 4}, {DType::kI32, "I32", 4}, {DType::kF32, "F32", 4},
    {DType::kU64, "U64", 8},   {DType::kI64, "I64", 8}, {DType::kF64, "F64", 8},
}};

const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "row_of() indexes by the enumerator");

template <class T>
Tensor tensor_of(std::string name, DType dtype, Shape shape, std::span<const T> values) {
  [[maybe_unused]] const auto count = count_of(shape);
  assert(count.ok() && static_cast<size_t>(*count) == values.size() && "a tensor's shape fits its values");
  Tensor tensor{std::move(name), dtype, std::move(shape), {}};
  const auto bytes = std::as_bytes(values);
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

// The number of elements, after a check that the bytes are as many as dtype and shape say.
Result<size_t> checked_count(const TensorView& tensor) {
  auto count = count_of(tensor.shape);
  if (!count) return std::move(count).error().under("tensor " + tensor.name);
  if (tensor.bytes.size() % size_of(tensor.dtype) != 0 ||
      tensor.bytes.size() / size_of(tensor.dtype) != static_cast<uint64_t>(*count)) {
    return invalid("tensor " + tensor.name + ": " + std::string(name_of(tensor.dtype)) + " " +
                   shape_text(tensor.shape) + " does not fit its " + std::to_string(tensor.bytes.size()) + " bytes");
  }
  return static_cast<size_t>(*count);
}

// Reads element i wherever it stands: views need not be aligned.
template <class T>
T element(const TensorView& tensor, size_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

Error wrong_dtype(const TensorView& tensor, std::string_view wanted) {
  return invalid("tensor " + tensor.name + " is " + std::string(name_of(tensor.dtype)) + "; needed is " +
                 std::string(wanted));
}

// Without branches, so that loops over it become vector code.
inline uint16_t rounded_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // Rounding could carry a NaN's payload into infinity: keep its top bits and make it quiet.
  const uint32_t nan = (bits >> 16) | 0x0040;
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

inline float widened_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace

size_t size_of(DType dtype) { return row_of(dtype).size_bytes; }
std::string_view name_of(DType dtype) { return row_of(dtype).name; }

Result<DType> dtype_named(std::string_view name) {
  std::string known;
  for (const auto& row : kDTypes) {
    if (row.name == name) return row.dtype;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return invalid("unknown dtype \"" + std::string(name.substr(0, 32)) + "\"; known are " + known);
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Result<int64_t> count_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 0) return invalid("shape " + shape_text(shape) + " has a negative dimension");
    if (__builtin_mul_overflow(count, dimension, &count)) {
      return invalid("shape " + shape_text(shape) + " has more elements than 64 bits can count");
    }
  }
  return count;
}

Tensor tensor_f32(std::string name, Shape shape, std::span<const float> values) {
  return tensor_of(std::move(name), DType::kF32, std::move(shape), values);
}

Tensor tensor_bf16(std::string name, Shape shape, std::span<const float> values) {
  std::vector<uint16_t> rounded(values.size());
  bf16_of(values, rounded);
  return tensor_of<uint16_t>(std::move(name), DType::kBF16, std::move(shape), rounded);
}

Tensor tensor_i64(std::string name, Shape shape, std::span<const int64_t> values) {
  return tensor_of(std::move(name), DType::kI64, std::move(shape), values);
}

Tensor tensor_i32(std::string name, Shape shape, std::span<const int32_t> values) {
  return tensor_of(std::move(name), DType::kI32, std::move(shape), values);
}

Result<std::vector<float>> to_floats(const TensorView& tensor) {
  TRY(const size_t count, checked_count(tensor));
  std::vector<float> values(count);
  switch (tensor.dtype) {
    case DType::kF32:
      if (count) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      return values;
    case DType::kBF16:
      for (size_t i = 0; i < count; ++i) values[i] = widened_bf16(element<uint16_t>(tensor, i));
      return values;
    case DType::kF16:
      for (size_t i = 0; i < count; ++i) values[i] = float_of_f16(element<uint16_t>(tensor, i));
      return values;
    case DType::kF64:
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(element<double>(tensor, i));
      return values;
    default:
      return wrong_dtype(tensor, "F32, F16, BF16 or F64");
  }
}

Result<std::vector<int64_t>> to_int64(const TensorView& tensor) {
  TRY(const size_t count, checked_count(tensor));
  std::vector<int64_t> values(count);
  switch (tensor.dtype) {
    case DType::kI64:
      if (count) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      return values;
    case DType::kI32:
      for (size_t i = 0; i < count; ++i) values[i] = element<int32_t>(tensor, i);
      return values;
    default:
      return wrong_dtype(tensor, "I64 or I32");
  }
}

uint16_t bf16_of(float value) { return rounded_bf16(value); }
float float_of_bf16(uint16_t bits) { return widened_bf16(bits); }

AERIE_CLONES void bf16_of(std::span<const float> values, std::span<uint16_t> into) {
  assert(values.size() == into.size());
  const float* from = values.data();
  uint16_t* to = into.data();
  for (size_t i = 0; i < values.size(); ++i) to[i] = rounded_bf16(from[i]);
}

AERIE_CLONES void floats_of_bf16(std::span<const uint16_t> bits, std::span<float> into) {
  assert(bits.size() == into.size());
  const uint16_t* from = bits.data();
  float* to = into.data();
  for (size_t i = 0; i < bits.size(); ++i) to[i] = widened_bf16(from[i]);
}

uint16_t f16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {
    // Subnormal halves are multiples of 2^-24, the spacing of floats in [0.5, 1): the addition rounds to them.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));  // exponent bias 127 -> 15
}

float float_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace aerie
