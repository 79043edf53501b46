#include "tensor/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace aerie {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// No library knows tensors of more dimensions; the bound keeps hostile shapes from growing.
constexpr size_t kMaxDimensions = 64;

struct Entry {
  TensorView tensor;
  uint64_t begin = 0, end = 0;
};

// nlohmann's SAX events of a header, checked against its only legal form:
// {"__metadata__": {string: string}, name: {"dtype": string, "shape": [u64...], "data_offsets": [u64, u64]}}
// Every handler returns false once error_ is set, which ends the parse.
class HeaderSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  Metadata metadata;
  std::string error;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return refuse("a number that is no 64-bit integer"); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    Entry* entry = in_array_ ? &entries.back() : nullptr;
    if (entry && field_ == Field::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return refuse("a dimension above 2^63");
      if (entry->tensor.shape.size() == kMaxDimensions) return refuse("more than 64 dimensions");
      entry->tensor.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (entry && field_ == Field::kOffsets && offsets_seen_ < 2) {
      (offsets_seen_++ == 0 ? entry->begin : entry->end) = value;
      return true;
    }
    return refuse("a number");
  }

  bool string(string_t& value) override {
    if (level_ == Level::kMetadata) {
      if (!metadata.emplace(std::move(metadata_key_), std::move(value)).second) {
        return fail("__metadata__ names a key twice");
      }
      return true;
    }
    if (level_ != Level::kEntry || in_array_ || field_ != Field::kDtype) return refuse("a string");
    auto dtype = dtype_named(value);
    if (!dtype) return fail("tensor " + entries.back().tensor.name + ": " + dtype.error().what);
    entries.back().tensor.dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    if (level_ == Level::kOutside) {
      level_ = Level::kRoot;
    } else if (level_ == Level::kRoot) {
      level_ = next_is_metadata_ ? Level::kMetadata : Level::kEntry;
    } else {
      return refuse("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (level_ == Level::kRoot) return root_key(name);
    if (level_ == Level::kMetadata) {
      metadata_key_ = std::move(name);
      return true;
    }
    field_ = name == "dtype" ? Field::kDtype : name == "shape" ? Field::kShape
             : name == "data_offsets"                          ? Field::kOffsets
                                                               : Field::kNone;
    if (field_ == Field::kNone) return fail("tensor " + entries.back().tensor.name + " has an unknown key");
    const unsigned bit = 1u << static_cast<unsigned>(field_);
    if (fields_seen_ & bit) return fail("tensor " + entries.back().tensor.name + " has \"" + name + "\" twice");
    fields_seen_ |= bit;
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kRoot) {
      level_ = Level::kOutside;
      return true;
    }
    if (level_ == Level::kEntry && fields_seen_ != kAllFields) {
      return fail("tensor " + entries.back().tensor.name + " lacks dtype, shape or data_offsets");
    }
    level_ = Level::kRoot;
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != Level::kEntry || in_array_ || (field_ != Field::kShape && field_ != Field::kOffsets)) {
      return refuse("an array");
    }
    in_array_ = true;
    offsets_seen_ = 0;
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    if (field_ == Field::kOffsets && offsets_seen_ != 2) return refuse("data_offsets that are no pair");
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("the header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Level { kOutside, kRoot, kEntry, kMetadata };
  enum class Field { kDtype, kShape, kOffsets, kNone };
  static constexpr unsigned kAllFields = 0b111;

  bool root_key(string_t& name) {
    next_is_metadata_ = name == "__metadata__";
    if (next_is_metadata_) {
      if (metadata_seen_) return fail("__metadata__ is there twice");
      metadata_seen_ = true;
      return true;
    }
    entries.emplace_back();
    entries.back().tensor.name = std::move(name);
    fields_seen_ = 0;
    return true;
  }

  bool refuse(std::string_view found) {
    std::string where = level_ == Level::kOutside    ? "the header"
                        : level_ == Level::kMetadata ? "__metadata__"
                        : level_ == Level::kRoot && next_is_metadata_ ? "__metadata__"
                        : entries.empty()            ? "the header"
                                                     : "tensor " + entries.back().tensor.name;
    return fail(where + " holds " + std::string(found) + " where the format has none");
  }
  bool fail(std::string sentence) {
    if (error.empty()) error = std::move(sentence);
    return false;
  }

  Level level_ = Level::kOutside;
  Field field_ = Field::kNone;
  bool next_is_metadata_ = false, metadata_seen_ = false, in_array_ = false;
  unsigned fields_seen_ = 0, offsets_seen_ = 0;
  std::string metadata_key_;
};

Result<uint64_t> bytes_of(const TensorView& tensor) {
  TRY(const int64_t count, count_of(tensor.shape));
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(count), size_of(tensor.dtype), &bytes)) {
    return invalid("shape " + shape_text(tensor.shape) + " needs more bytes than 64 bits can count");
  }
  return bytes;
}

Status check_names(const std::vector<Entry>& entries) {
  std::unordered_set<std::string_view> names;
  names.reserve(entries.size());
  for (const auto& entry : entries) {
    if (!names.insert(entry.tensor.name).second) return corrupt("tensor " + entry.tensor.name + " is there twice");
  }
  return ok_status();
}

// The buffer must be covered from 0 to its end by the tensors in order of offset: no hole, no overlap, no rest.
Status check_layout(const std::vector<Entry>& entries, uint64_t buffer_bytes) {
  uint64_t reached = 0;
  for (const auto& entry : entries) {
    const std::string who = "tensor " + entry.tensor.name + ": ";
    if (entry.begin != reached || entry.end < entry.begin) {
      return corrupt(who + "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                     "] leave a hole or overlap; the tensor before ends at " + std::to_string(reached));
    }
    auto bytes = bytes_of(entry.tensor);
    if (!bytes) return corrupt(who + bytes.error().what);
    if (*bytes != entry.end - entry.begin) {
      return corrupt(who + std::string(name_of(entry.tensor.dtype)) + " " + shape_text(entry.tensor.shape) + " needs " +
                     std::to_string(*bytes) + " bytes, data_offsets give " + std::to_string(entry.end - entry.begin));
    }
    reached = entry.end;
  }
  if (reached != buffer_bytes) {
    return corrupt("the tensors end after " + std::to_string(reached) + " bytes, but the file holds " +
                   std::to_string(buffer_bytes) + (reached > buffer_bytes ? ": it is truncated" : ": trailing bytes"));
  }
  return ok_status();
}

// Length and outer form of the header; returns N.
Result<uint64_t> checked_header_length(std::span<const std::byte> head, uint64_t file_bytes) {
  if (file_bytes < 8 || head.size() < 8) {
    return corrupt("a safetensors file has at least 8 bytes; this one has " + std::to_string(file_bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, head.data(), 8);
  if (length == 0) return corrupt("the header's length is 0: the file was never finished");
  if (length > kMaxHeaderBytes) {
    return corrupt("the header's length " + std::to_string(length) + " is above the format's limit of 100,000,000 bytes");
  }
  if (length > file_bytes - 8) {
    return corrupt("the header's length " + std::to_string(length) + " reaches beyond the file's " +
                   std::to_string(file_bytes) + " bytes: it is truncated or no safetensors file");
  }
  if (head.size() - 8 < length) return invalid("the first " + std::to_string(8 + length) + " bytes are needed");
  return length;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head, uint64_t file_bytes) {
  TRY(const uint64_t length, checked_header_length(head, file_bytes));
  std::string_view json(reinterpret_cast<const char*>(head.data()) + 8, length);
  if (json.front() != '{') return corrupt("the header does not begin with '{': no safetensors file");
  json.remove_suffix(json.size() - 1 - json.find_last_not_of(' '));
  // nlohmann takes a NUL as the end of the text and other white space as padding; the format does neither.
  if (json.back() != '}' || json.find('\0') != json.npos) {
    return corrupt("the header does not end with '}' and spaces");
  }

  HeaderSax sax;
  try {
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &sax)) {
      return corrupt(sax.error.empty() ? "the header is not valid JSON" : sax.error);
    }
  } catch (const std::exception& e) {
    return corrupt(std::string("the header cannot be parsed: ") + e.what());
  }
  CHECKED(check_names(sax.entries));
  std::stable_sort(sax.entries.begin(), sax.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  CHECKED(check_layout(sax.entries, file_bytes - 8 - length));

  SafetensorsHeader header;
  header.header_bytes = 8 + length;
  header.metadata = std::move(sax.metadata);
  header.tensors.reserve(sax.entries.size());
  header.offsets.reserve(sax.entries.size());
  for (auto& entry : sax.entries) {
    header.tensors.push_back(std::move(entry.tensor));
    header.offsets.push_back(header.header_bytes + entry.begin);
  }
  return header;
}

Result<std::string> safetensors_header(const std::vector<TensorView>& tensors, const Metadata& metadata, size_t align) {
  if (align == 0) return invalid("a safetensors header cannot be aligned to 0 bytes");
  std::unordered_set<std::string_view> names;
  JsonObject json;
  if (!metadata.empty()) {
    JsonObject members;
    for (const auto& [key, value] : metadata) {
      if (!valid_utf8(key) || !valid_utf8(value)) return invalid("metadata \"" + key + "\" is not UTF-8");
      members.add(Field(key, value));
    }
    json.add_json("__metadata__", members.text());
  }
  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (!valid_utf8(tensor.name)) return invalid("a tensor's name is not UTF-8");
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return invalid("tensor name " + tensor.name + " is taken");
    }
    if (tensor.shape.size() > kMaxDimensions) return invalid("tensor " + tensor.name + " has more than 64 dimensions");
    auto bytes = bytes_of(tensor);
    if (!bytes) return std::move(bytes).error().under("tensor " + tensor.name);
    uint64_t end = 0;
    if (__builtin_add_overflow(offset, *bytes, &end)) return invalid("the tensors need more than 2^64 bytes");
    json.add_json(tensor.name, "{\"dtype\":\"" + std::string(name_of(tensor.dtype)) + "\",\"shape\":" +
                                   json_array(tensor.shape) + ",\"data_offsets\":[" + std::to_string(offset) + "," +
                                   std::to_string(end) + "]}");
    offset = end;
  }
  std::string text = json.text();
  text.append((align - (8 + text.size()) % align) % align, ' ');
  if (text.size() > kMaxHeaderBytes) return invalid("a header of " + std::to_string(text.size()) +
                                                    " bytes is above the format's limit of 100,000,000");
  const uint64_t length = text.size();
  std::string head(8, '\0');
  std::memcpy(head.data(), &length, 8);
  return head + text;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  TRY(MappedFile file, MappedFile::open(path));
  auto header = parse_safetensors_header(file.bytes(), file.bytes().size());
  if (!header) return std::move(header).error().under(path);
  for (size_t i = 0; i < header->tensors.size(); ++i) {
    const uint64_t end = i + 1 < header->offsets.size() ? header->offsets[i + 1] : file.bytes().size();
    header->tensors[i].bytes = file.bytes().subspan(header->offsets[i], end - header->offsets[i]);
  }
  return SafetensorsFile(std::move(file), *std::move(header));
}

Result<TensorView> SafetensorsFile::find(std::string_view name) const {
  for (const auto& tensor : header_.tensors) {
    if (tensor.name == name) return tensor;
  }
  return not_found(path() + " has no tensor " + std::string(name));
}

Status write_safetensors(FileSystem& fs, const std::string& path, const std::vector<TensorView>& tensors,
                         const Metadata& metadata) {
  for (const auto& tensor : tensors) {
    auto bytes = bytes_of(tensor);
    if (!bytes || *bytes != tensor.bytes.size()) {
      return invalid(path + ": tensor " + tensor.name + " " + shape_text(tensor.shape) + " does not fit its " +
                     std::to_string(tensor.bytes.size()) + " bytes");
    }
  }
  auto head = safetensors_header(tensors, metadata);
  if (!head) return std::move(head).error().under(path);
  std::vector<std::span<const std::byte>> parts{as_bytes(*head)};
  for (const auto& tensor : tensors) parts.push_back(tensor.bytes);
  return write_file_atomically(fs, path, parts);
}

}  // namespace aerie
