#include <algorithm>
#include <unordered_set>

#include "tensor/gguf.h"
#include "tensor/gguf_types.h"

namespace aerie {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out.append(text);
}

template <class T>
bool put_integer(std::string& out, const GgufScalar& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  if (!integer) return false;
  // u64 above int64's range is held bitwise, so only narrower types can be out of range.
  if (sizeof(T) < 8 && static_cast<int64_t>(static_cast<T>(*integer)) != *integer) return false;
  put<T>(out, static_cast<T>(*integer));
  return true;
}

// False when the value does not fit the type.
bool put_scalar(std::string& out, uint32_t type, const GgufScalar& value) {
  switch (type) {
    case kGgufU8: return put_integer<uint8_t>(out, value);
    case kGgufI8: return put_integer<int8_t>(out, value);
    case kGgufU16: return put_integer<uint16_t>(out, value);
    case kGgufI16: return put_integer<int16_t>(out, value);
    case kGgufU32: return put_integer<uint32_t>(out, value);
    case kGgufI32: return put_integer<int32_t>(out, value);
    case kGgufU64: return put_integer<uint64_t>(out, value);
    case kGgufI64: return put_integer<int64_t>(out, value);
    case kGgufF32: case kGgufF64: {
      const auto* number = std::get_if<double>(&value);
      if (!number) return false;
      if (type == kGgufF32) put<float>(out, static_cast<float>(*number));
      else put<double>(out, *number);
      return true;
    }
    case kGgufBool: {
      const auto* flag = std::get_if<bool>(&value);
      if (!flag) return false;
      put<uint8_t>(out, *flag ? 1 : 0);
      return true;
    }
    case kGgufString: {
      const auto* text = std::get_if<std::string>(&value);
      if (!text) return false;
      put_text(out, *text);
      return true;
    }
    default: return false;
  }
}

Status put_value(std::string& out, const std::string& key, const GgufValue& value) {
  if (!value.array() && value.values.size() != 1) return invalid("metadata key " + key + " needs one value");
  put<uint32_t>(out, value.type);
  if (value.array()) {
    if (gguf_scalar_bytes(value.element_type) == 0) {
      return invalid("metadata key " + key + " is an array of type " + std::to_string(value.element_type));
    }
    put<uint32_t>(out, value.element_type);
    put<uint64_t>(out, value.values.size());
  }
  for (const auto& scalar : value.values) {
    if (!put_scalar(out, value.array() ? value.element_type : value.type, scalar)) {
      return invalid("metadata key " + key + " holds a value that does not fit its type");
    }
  }
  return ok_status();
}

Status put_metadata(std::string& out, const std::vector<std::pair<std::string, GgufValue>>& metadata) {
  std::unordered_set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    if (key.empty() || key.size() > kGgufMaxKeyBytes) return invalid("a metadata key is empty or above 65535 bytes");
    if (!keys.insert(key).second) return invalid("metadata key " + key + " is given twice");
    if (key == "general.alignment" &&
        (value.type != kGgufU32 || value.values != std::vector<GgufScalar>{int64_t{kGgufDefaultAlignment}})) {
      return invalid("general.alignment is not 32, the alignment that is written");
    }
    put_text(out, key);
    CHECKED(put_value(out, key, value));
  }
  return ok_status();
}

uint64_t padded(uint64_t bytes) {
  return (bytes + kGgufDefaultAlignment - 1) / kGgufDefaultAlignment * kGgufDefaultAlignment;
}

Status put_tensor_infos(std::string& out, const std::vector<GgufTensor>& tensors) {
  std::unordered_set<std::string_view> names;
  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name.empty() || tensor.name.size() > kGgufMaxNameBytes || !names.insert(tensor.name).second) {
      return invalid("tensor name \"" + tensor.name + "\" is empty, above 63 bytes, or taken");
    }
    if (tensor.ne.size() > kGgufMaxDimensions) return invalid("tensor " + tensor.name + " has more than 4 dimensions");
    auto bytes = ggml_bytes(tensor.type, tensor.ne);
    if (!bytes) return std::move(bytes).error().under("tensor " + tensor.name);
    if (*bytes != tensor.bytes.size()) {
      return invalid("tensor " + tensor.name + " " + shape_text(tensor.ne) + " needs " + std::to_string(*bytes) +
                     " bytes, given are " + std::to_string(tensor.bytes.size()));
    }
    put_text(out, tensor.name);
    put<uint32_t>(out, static_cast<uint32_t>(tensor.ne.size()));
    for (const int64_t length : tensor.ne) put<uint64_t>(out, static_cast<uint64_t>(length));
    put<uint32_t>(out, tensor.type);
    put<uint64_t>(out, offset);
    offset += padded(*bytes);
  }
  return ok_status();
}

GgufValue scalar(GgufType type, GgufScalar value) { return {type, 0, {std::move(value)}}; }

}  // namespace

GgufValue gguf_text(std::string value) { return scalar(kGgufString, std::move(value)); }
GgufValue gguf_u32(uint32_t value) { return scalar(kGgufU32, int64_t{value}); }
GgufValue gguf_f32(float value) { return scalar(kGgufF32, double{value}); }
GgufValue gguf_bool(bool value) { return scalar(kGgufBool, value); }

GgufValue gguf_i32_array(const std::vector<int32_t>& values) {
  GgufValue array{kGgufArray, kGgufI32, {}};
  for (const int32_t value : values) array.values.emplace_back(int64_t{value});
  return array;
}

Status write_gguf(FileSystem& fs, const std::string& path,
                  const std::vector<std::pair<std::string, GgufValue>>& metadata, const std::vector<GgufTensor>& tensors) {
  std::string head;
  put<uint32_t>(head, kGgufMagic);
  put<uint32_t>(head, 3);
  put<uint64_t>(head, tensors.size());
  put<uint64_t>(head, metadata.size());
  Status status = put_metadata(head, metadata);
  if (status) status = put_tensor_infos(head, tensors);
  if (!status) return std::move(status).error().under(path);
  head.resize(padded(head.size()), '\0');

  static constexpr std::byte kZeros[kGgufDefaultAlignment] = {};
  std::vector<std::span<const std::byte>> parts{as_bytes(head)};
  for (const auto& tensor : tensors) {
    parts.push_back(tensor.bytes);
    parts.push_back(std::span(kZeros).first(padded(tensor.bytes.size()) - tensor.bytes.size()));
  }
  return write_file_atomically(fs, path, parts);
}

}  // namespace aerie
