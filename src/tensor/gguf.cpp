#include "tensor/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "tensor/gguf_types.h"

namespace aerie {
namespace {

// Reads little-endian values from a span; every read is checked against what is left.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t position() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  template <class T>
  Result<T> number(std::string_view what) {
    if (left() < sizeof(T)) return ends_in(what);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  Result<std::string> text(std::string_view what, uint64_t max_bytes) {
    TRY(const uint64_t length, number<uint64_t>(what));
    if (length > left()) return ends_in(what);
    if (length > max_bytes) {
      return corrupt("a " + std::string(what) + " of " + std::to_string(length) + " bytes at byte " +
                     std::to_string(at_) + "; the limit is " + std::to_string(max_bytes));
    }
    std::string value(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return value;
  }

 private:
  Error ends_in(std::string_view what) const {
    return corrupt("the file ends inside a " + std::string(what) + " that begins at byte " + std::to_string(at_) +
                   ": it is truncated or lies about a size");
  }
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

template <class T>
Result<GgufScalar> integer_of(Cursor& in) {
  TRY(const T value, in.number<T>("metadata value"));
  return GgufScalar(static_cast<int64_t>(value));
}

Result<GgufScalar> scalar_of(Cursor& in, uint32_t type) {
  switch (type) {
    case kGgufU8: return integer_of<uint8_t>(in);
    case kGgufI8: return integer_of<int8_t>(in);
    case kGgufU16: return integer_of<uint16_t>(in);
    case kGgufI16: return integer_of<int16_t>(in);
    case kGgufU32: return integer_of<uint32_t>(in);
    case kGgufI32: return integer_of<int32_t>(in);
    case kGgufU64: return integer_of<uint64_t>(in);
    case kGgufI64: return integer_of<int64_t>(in);
    case kGgufF32: {
      TRY(const float value, in.number<float>("metadata value"));
      return GgufScalar(static_cast<double>(value));
    }
    case kGgufF64: {
      TRY(const double value, in.number<double>("metadata value"));
      return GgufScalar(value);
    }
    case kGgufBool: {
      TRY(const uint8_t value, in.number<uint8_t>("metadata value"));
      if (value > 1) return corrupt("a boolean of value " + std::to_string(value));
      return GgufScalar(value == 1);
    }
    case kGgufString: {
      TRY(std::string value, in.text("string", UINT64_MAX));
      return GgufScalar(std::move(value));
    }
    default: return corrupt("unknown metadata type " + std::to_string(type));
  }
}

Result<GgufValue> value_of(Cursor& in, uint64_t& values_left) {
  GgufValue value;
  TRY(value.type, in.number<uint32_t>("metadata type"));
  uint64_t count = 1;
  uint32_t scalar = value.type;
  if (value.array()) {
    TRY(value.element_type, in.number<uint32_t>("array's element type"));
    TRY(count, in.number<uint64_t>("array's length"));
    scalar = value.element_type;
    if (scalar == kGgufArray) return corrupt("an array of arrays, which no model file has");
  }
  const uint64_t scalar_bytes = gguf_scalar_bytes(scalar);
  if (scalar_bytes == 0) return corrupt("unknown metadata type " + std::to_string(scalar));
  if (value.array() && count > in.left() / scalar_bytes) {
    return corrupt("an array of " + std::to_string(count) + " values in the " + std::to_string(in.left()) +
                   " bytes that are left: the file is truncated or lies about a size");
  }
  if (count > values_left) return corrupt("more than 8,388,608 metadata values: no model file has so many");
  values_left -= count;
  value.values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    TRY(GgufScalar element, scalar_of(in, scalar));
    value.values.push_back(std::move(element));
  }
  return value;
}

using MetadataList = std::vector<std::pair<std::string, GgufValue>>;

Result<MetadataList> metadata_of(Cursor& in, uint64_t count) {
  constexpr uint64_t kLeastBytes = 8 + 1 + 4 + 1;  // a key of one letter, a type, a value of one byte
  if (count > in.left() / kLeastBytes) {
    return corrupt(std::to_string(count) + " metadata keys do not fit into a file of this size");
  }
  MetadataList metadata;
  metadata.reserve(count);
  uint64_t values_left = kGgufMaxValues;
  for (uint64_t i = 0; i < count; ++i) {
    TRY(std::string key, in.text("metadata key", kGgufMaxKeyBytes));
    if (key.empty()) return corrupt("metadata key " + std::to_string(i) + " is empty");
    auto value = value_of(in, values_left);
    if (!value) return std::move(value).error().under("metadata key " + key);
    metadata.emplace_back(std::move(key), *std::move(value));
  }
  std::unordered_set<std::string_view> keys;
  keys.reserve(metadata.size());
  for (const auto& [key, value] : metadata) {
    if (!keys.insert(key).second) return corrupt("metadata key " + key + " is there twice");
  }
  return metadata;
}

Result<uint64_t> alignment_of(const MetadataList& metadata) {
  for (const auto& [key, value] : metadata) {
    if (key != "general.alignment") continue;
    if (value.type != kGgufU32) return corrupt("general.alignment is no u32");
    const auto alignment = static_cast<uint64_t>(std::get<int64_t>(value.values[0]));
    if (!std::has_single_bit(alignment)) {
      return corrupt("general.alignment " + std::to_string(alignment) + " is no power of two");
    }
    return alignment;
  }
  return kGgufDefaultAlignment;
}

struct TensorPlace {
  GgufTensor tensor;
  uint64_t offset = 0;  // from the start of the tensor data
  uint64_t bytes = 0;
};

Result<TensorPlace> tensor_of(Cursor& in, uint64_t alignment) {
  TensorPlace place;
  TRY(place.tensor.name, in.text("tensor name", kGgufMaxNameBytes));
  const std::string who = "tensor " + place.tensor.name;
  TRY(const uint32_t dimensions, in.number<uint32_t>("tensor's number of dimensions"));
  if (dimensions == 0 || dimensions > kGgufMaxDimensions) {
    return corrupt(who + " has " + std::to_string(dimensions) + " dimensions; the format has 1 to 4");
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    TRY(const int64_t length, in.number<int64_t>("tensor's dimension"));
    place.tensor.ne.push_back(length);
  }
  TRY(place.tensor.type, in.number<uint32_t>("tensor's type"));
  TRY(place.offset, in.number<uint64_t>("tensor's offset"));
  if (place.offset % alignment != 0) {
    return corrupt(who + " begins at " + std::to_string(place.offset) + ", no multiple of the alignment " +
                   std::to_string(alignment));
  }
  auto bytes = ggml_bytes(place.tensor.type, place.tensor.ne);
  if (!bytes) return corrupt(who + ": " + bytes.error().what);
  place.bytes = *bytes;
  return place;
}

Result<std::vector<TensorPlace>> tensors_of(Cursor& in, uint64_t count, uint64_t alignment) {
  constexpr uint64_t kLeastBytes = 8 + 4 + 8 + 4 + 8;  // an empty name, one dimension
  if (count > in.left() / kLeastBytes) {
    return corrupt(std::to_string(count) + " tensors do not fit into a file of this size");
  }
  std::vector<TensorPlace> places;
  places.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    TRY(TensorPlace place, tensor_of(in, alignment));
    places.push_back(std::move(place));
  }
  std::unordered_set<std::string_view> names;
  names.reserve(places.size());
  for (const auto& place : places) {
    if (!names.insert(place.tensor.name).second) return corrupt("tensor " + place.tensor.name + " is there twice");
  }
  return places;
}

// Gives every tensor its bytes in `data`, after checking that none lies outside it or over another.
Status place_tensors(std::vector<TensorPlace>& places, std::span<const std::byte> data) {
  std::vector<const TensorPlace*> in_order;
  in_order.reserve(places.size());
  for (auto& place : places) {
    if (place.offset > data.size() || place.bytes > data.size() - place.offset) {
      return corrupt("tensor " + place.tensor.name + " needs bytes " + std::to_string(place.offset) + " to " +
                     std::to_string(place.offset) + "+" + std::to_string(place.bytes) + " of tensor data that has " +
                     std::to_string(data.size()) + ": the file is truncated");
    }
    place.tensor.bytes = data.subspan(place.offset, place.bytes);
    if (place.bytes > 0) in_order.push_back(&place);
  }
  std::sort(in_order.begin(), in_order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i - 1]->offset + in_order[i - 1]->bytes > in_order[i]->offset) {
      return corrupt("tensors " + in_order[i - 1]->tensor.name + " and " + in_order[i]->tensor.name + " overlap");
    }
  }
  return ok_status();
}

Status check_version(Cursor& in) {
  auto magic = in.number<uint32_t>("magic");
  if (!magic || *magic != kGgufMagic) return invalid("not a GGUF file: it does not begin with \"GGUF\"");
  TRY(const uint32_t version, in.number<uint32_t>("version"));
  if ((version & 0xffff) == 0) return invalid("a big-endian GGUF file; convert it to little endian");
  if (version != 2 && version != 3) {
    return invalid("GGUF version " + std::to_string(version) + "; versions 2 and 3 can be read");
  }
  return ok_status();
}

struct BlockSize {
  uint32_t type;
  uint16_t elements, bytes;
};
// ggml's type traits (ggml-common.h), which are part of the file format.
constexpr std::array<BlockSize, 35> kBlockSizes{{
    {0, 1, 4},      {1, 1, 2},     {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},
    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292},
    {16, 256, 66},  {17, 256, 74}, {18, 256, 98}, {19, 256, 50},  {20, 32, 18},   {21, 256, 110}, {22, 256, 82},
    {23, 256, 136}, {24, 1, 1},    {25, 1, 2},    {26, 1, 4},     {27, 1, 8},     {28, 1, 8},     {29, 256, 56},
    {30, 1, 2},     {34, 256, 54}, {35, 256, 66}, {39, 32, 17},   {40, 64, 36},   {41, 128, 18},  {42, 64, 18},
}};

}  // namespace

Result<uint64_t> ggml_bytes(uint32_t type, const std::vector<int64_t>& ne) {
  const auto* row = std::find_if(kBlockSizes.begin(), kBlockSizes.end(), [&](auto& b) { return b.type == type; });
  if (row == kBlockSizes.end()) {
    return invalid("ggml tensor type " + std::to_string(type) + " is not known to this version");
  }
  if (ne.empty()) return invalid("a GGUF tensor has at least one dimension");
  TRY(const int64_t elements, count_of(ne));
  if (ne[0] % row->elements != 0) {
    return invalid("a row of " + std::to_string(ne[0]) + " elements is no multiple of the block of " +
                   std::to_string(row->elements) + " of ggml tensor type " + std::to_string(type));
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(elements) / row->elements, uint64_t{row->bytes}, &bytes)) {
    return invalid("shape " + shape_text(ne) + " needs more bytes than 64 bits can count");
  }
  return bytes;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  TRY(MappedFile mapped, MappedFile::open(path));
  TRY(GgufFile file, parse(mapped.bytes(), path));
  file.file_.push_back(std::move(mapped));
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& where) {
  const auto parsed = [&]() -> Result<GgufFile> {
    GgufFile file;
    file.where_ = where;
    Cursor in(bytes);
    CHECKED(check_version(in));
    TRY(const uint64_t tensor_count, in.number<uint64_t>("tensor count"));
    TRY(const uint64_t key_count, in.number<uint64_t>("metadata count"));
    TRY(file.metadata_, metadata_of(in, key_count));
    TRY(const uint64_t alignment, alignment_of(file.metadata_));
    TRY(auto places, tensors_of(in, tensor_count, alignment));
    const uint64_t data_begin = (in.position() + alignment - 1) / alignment * alignment;
    // A file without tensors may end before the padding.
    const auto data = bytes.subspan(std::min<uint64_t>(data_begin, bytes.size()));
    CHECKED(place_tensors(places, data));
    file.tensors_.reserve(places.size());
    for (auto& place : places) file.tensors_.push_back(std::move(place.tensor));
    return file;
  };
  auto file = parsed();
  if (!file) return std::move(file).error().under(where);
  return file;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  for (const auto& [name, value] : metadata_) {
    if (name == key) return &value;
  }
  return nullptr;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  for (const auto& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

namespace {

Result<const GgufScalar*> scalar_at(const GgufFile& file, const std::string& where, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (!value) return not_found(where + " has no metadata key " + std::string(key));
  if (value->array()) return invalid(where + ": metadata key " + std::string(key) + " is an array");
  return &value->values.front();
}

Error wrong_kind(const std::string& where, std::string_view key, std::string_view wanted) {
  return invalid(where + ": metadata key " + std::string(key) + " is no " + std::string(wanted));
}

}  // namespace

Result<std::string> GgufFile::text(std::string_view key) const {
  TRY(const GgufScalar* value, scalar_at(*this, where_, key));
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  return wrong_kind(where_, key, "string");
}

Result<int64_t> GgufFile::integer(std::string_view key) const {
  TRY(const GgufScalar* value, scalar_at(*this, where_, key));
  if (const auto* integer = std::get_if<int64_t>(value)) return *integer;
  return wrong_kind(where_, key, "integer");
}

Result<double> GgufFile::number(std::string_view key) const {
  TRY(const GgufScalar* value, scalar_at(*this, where_, key));
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return wrong_kind(where_, key, "number");
}

}  // namespace aerie
