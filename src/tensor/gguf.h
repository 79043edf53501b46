// GGUF files in and out (version 3 written, 2 and 3 read; spec: ggml-org/ggml docs/gguf.md).
//
// A GgufFile maps the file; tensor bytes live as long as it does. Metadata is copied out. Reading is safe from several
// threads. A file that lies about its sizes is kCorrupt with the place; something that is no GGUF is kInvalid.
// A hostile file costs no more than a small multiple of its own size: counts and lengths are checked against the bytes
// that are left before anything is allocated, and metadata of more than 8,388,608 values is refused.
// Tensor dimensions keep GGUF's order here: ne[0] is the fastest, so a row-major [rows, columns] has ne {columns, rows}.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace aerie {

// ggml's tensor types by number; only those that Aerie names. Others are carried as numbers.
enum class GgmlType : uint32_t {
  kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ8_1 = 9, kQ2K = 10, kQ3K = 11, kQ4K = 12,
  kQ5K = 13, kQ6K = 14, kQ8K = 15, kI8 = 24, kI16 = 25, kI32 = 26, kI64 = 27, kF64 = 28, kBF16 = 30,
};

// Integers of every width are held as int64 (u64 above its range is kept bitwise), floats as double.
using GgufScalar = std::variant<int64_t, double, bool, std::string>;

struct GgufValue {
  uint32_t type = 0;                   // GGUF value type number; 9 = array
  uint32_t element_type = 0;           // of an array
  std::vector<GgufScalar> values;      // one for a scalar
  bool array() const { return type == 9; }
};

struct GgufTensor {
  std::string name;
  uint32_t type = 0;                   // GgmlType's number
  std::vector<int64_t> ne;             // 1 to 4, fastest first
  std::span<const std::byte> bytes;    // packed as ggml stores it
};

class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  // From memory, for the fuzzer and for tests; the bytes are borrowed.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& where);

  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  // null when absent
  // kNotFound when absent, kInvalid when it is of another kind; both name file and key.
  Result<std::string> text(std::string_view key) const;
  Result<int64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;  // floats and integers
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

 private:
  GgufFile() = default;
  std::string where_;
  std::vector<MappedFile> file_;  // empty when parsed from borrowed bytes, else one
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
};

// Bytes of a tensor of this type and shape; kInvalid for a type that is unknown or a row that is no multiple of a block.
Result<uint64_t> ggml_bytes(uint32_t type, const std::vector<int64_t>& ne);

GgufValue gguf_text(std::string value);
GgufValue gguf_u32(uint32_t value);
GgufValue gguf_f32(float value);
GgufValue gguf_bool(bool value);
GgufValue gguf_i32_array(const std::vector<int32_t>& values);

// Writes a whole GGUF v3 file atomically: metadata in the given order, tensors aligned to 32 bytes.
Status write_gguf(FileSystem& fs, const std::string& path,
                  const std::vector<std::pair<std::string, GgufValue>>& metadata, const std::vector<GgufTensor>& tensors);

}  // namespace aerie
