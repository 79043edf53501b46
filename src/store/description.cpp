#include "store/description.h"

#include <random>

#include <nlohmann/json.hpp>

namespace aerie {
namespace {

constexpr const char* kFormat = "aerie-store";
constexpr int kVersion = 1;
using Json = nlohmann::ordered_json;

std::string path_in(const std::string& store_path) { return store_path + "/store.json"; }

// Text that is JSON becomes part of the document; anything else is kept as a string.
Json nested(const std::string& text) {
  if (text.empty()) return nullptr;
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json(text) : json;
}

std::string text_of(const Json& json) {
  if (json.is_null()) return "";
  return json.is_string() ? json.get<std::string>() : json.dump();
}

Json json_of(const Description& description) {
  const StoreHeader& h = description.header;
  return {{"format", kFormat},           {"version", kVersion},
          {"uuid", description.uuid},    {"target_fingerprint", h.target_fingerprint},
          {"target_name", h.target_name}, {"architecture", h.architecture},
          {"engine", h.engine},          {"weight_type", h.weight_type},
          {"layer_count", h.layer_count}, {"hidden_size", h.hidden_size},
          {"vocab_size", h.vocab_size},  {"boundaries", h.boundaries},
          {"last_is_prenorm", h.last_is_prenorm}, {"dtype", h.dtype},
          {"probe", nested(h.probe_json)}, {"facts", nested(h.facts_json)}};
}

Description description_of(const Json& json) {
  Description d;
  StoreHeader& h = d.header;
  d.uuid = json.at("uuid").get<std::string>();
  h.target_fingerprint = json.at("target_fingerprint").get<std::string>();
  h.target_name = json.at("target_name").get<std::string>();
  h.architecture = json.at("architecture").get<std::string>();
  h.engine = json.at("engine").get<std::string>();
  h.weight_type = json.at("weight_type").get<std::string>();
  h.layer_count = json.at("layer_count").get<int>();
  h.hidden_size = json.at("hidden_size").get<int>();
  h.vocab_size = json.at("vocab_size").get<int>();
  h.boundaries = json.at("boundaries").get<std::vector<int>>();
  h.last_is_prenorm = json.at("last_is_prenorm").get<bool>();
  h.dtype = json.at("dtype").get<std::string>();
  h.probe_json = text_of(json.at("probe"));
  h.facts_json = text_of(json.at("facts"));
  return d;
}

std::string list_text(const std::vector<int>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

}  // namespace

ShardFacts Description::facts() const {
  return {uuid, header.target_fingerprint,
          {header.hidden_size, static_cast<int64_t>(header.boundaries.size()), header.vocab_size,
           header.boundaries.front(), header.dtype == "F32" ? DType::kF32 : DType::kBF16}};
}

Result<Description> read_description(FileSystem& fs, const std::string& store_path) {
  const std::string path = path_in(store_path);
  TRY(const std::string text, read_file(fs, path, 16 << 20));
  Description description;
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat) return corrupt(path + " is not the description of a store");
    if (json.at("version") != kVersion) {
      return invalid(path + " has version " + json.at("version").dump() + ", this program reads " +
                     std::to_string(kVersion) + ": use a newer aerie");
    }
    description = description_of(json);
  } catch (const std::exception& e) {
    return corrupt(path + " cannot be read as a store's description: " + e.what());
  }
  Status status = check_header(description.header);
  if (!status) return corrupt(path + ": " + status.error().what);
  return description;
}

Result<Description> create_description(FileSystem& fs, const std::string& store_path, const StoreHeader& header) {
  CHECKED(check_header(header));
  const Description description{hex_of(random_id()), header};
  std::string text;
  try {
    text = json_of(description).dump(2) + "\n";
  } catch (const std::exception& e) {
    return invalid("the store's description is not UTF-8: " + std::string(e.what()));
  }
  CHECKED(write_file_atomically(fs, path_in(store_path), text));
  return read_description(fs, store_path);
}

Status check_header(const StoreHeader& header) {
  if (header.hidden_size <= 0 || header.hidden_size > 1 << 20 || header.vocab_size <= 0 || header.layer_count <= 0) {
    return invalid("hidden_size must be 1 to 1048576, vocab_size and layer_count above 0");
  }
  if (header.dtype != "BF16" && header.dtype != "F32") return invalid("dtype \"" + header.dtype + "\" is neither BF16 nor F32");
  if (header.boundaries.empty()) return invalid("a store needs at least one boundary");
  for (size_t i = 0; i < header.boundaries.size(); ++i) {
    const int boundary = header.boundaries[i];
    if (boundary < 0 || boundary > header.layer_count || (i > 0 && boundary <= header.boundaries[i - 1])) {
      return invalid("boundaries " + list_text(header.boundaries) + " do not ascend between 0 and " +
                     std::to_string(header.layer_count));
    }
  }
  return ok_status();
}

Status check_same(const StoreHeader& stored, const StoreHeader& wanted) {
  const auto same = [](const char* field, const auto& a, const auto& b, auto text) -> Status {
    if (a == b) return ok_status();
    return invalid("the store's " + std::string(field) + " is " + text(a) + ", this run's is " + text(b) +
                   ": their samples cannot be mixed; use another folder");
  };
  const auto quoted = [](const std::string& value) { return "\"" + value + "\""; };
  const auto number = [](int value) { return std::to_string(value); };
  CHECKED(same("architecture", stored.architecture, wanted.architecture, quoted));
  CHECKED(same("engine", stored.engine, wanted.engine, quoted));
  CHECKED(same("weight_type", stored.weight_type, wanted.weight_type, quoted));
  CHECKED(same("layer_count", stored.layer_count, wanted.layer_count, number));
  CHECKED(same("hidden_size", stored.hidden_size, wanted.hidden_size, number));
  CHECKED(same("vocab_size", stored.vocab_size, wanted.vocab_size, number));
  CHECKED(same("boundaries", stored.boundaries, wanted.boundaries, list_text));
  CHECKED(same("last_is_prenorm", stored.last_is_prenorm, wanted.last_is_prenorm, [](bool b) { return b ? "true" : "false"; }));
  CHECKED(same("dtype", stored.dtype, wanted.dtype, quoted));
  // Last, because the fields above say more about why it differs.
  return same("target_fingerprint", stored.target_fingerprint, wanted.target_fingerprint, quoted);
}

WriterId random_id() {
  std::random_device device;
  WriterId id;
  for (auto& byte : id) byte = static_cast<std::byte>(device() & 0xff);
  return id;
}

}  // namespace aerie
