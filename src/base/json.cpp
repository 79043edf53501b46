#include "base/json.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace aerie {
namespace {

// Length of the longest prefix that is whole UTF-8 characters is found character by character: JSON text is short.
size_t character_length(std::string_view text) {
  for (size_t length = 1; length <= 4 && length <= text.size(); ++length)
    if (valid_utf8(text.substr(0, length))) return length;
  return 0;
}

void append_escaped(std::string& out, unsigned char c) {
  static const char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  if (c < 0x20 || c == 0x7f) {
    out += "\\u00";
    out += kHex[c >> 4];
    out += kHex[c & 15];
  } else {
    out += static_cast<char>(c);
  }
}

template <class Values, class Text>
std::string array_of(const Values& values, Text text) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ",";
    out += text(values[i]);
  }
  return out + "]";
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const unsigned char first = static_cast<unsigned char>(text[0]);
    size_t length = 1;
    if (first < 0x80) {
      append_escaped(out, first);
    } else if (length = character_length(text); length == 0) {
      out += "\xEF\xBF\xBD";
      length = 1;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);  // shortest text that reads back to the same number
  return std::string(text, end.ptr);
}

void JsonObject::name(std::string_view name) {
  if (body_.size() > 1) body_ += ",";
  body_ += json_string(name) + ":";
}

JsonObject& JsonObject::add(const Field& field) {
  name(field.name);
  if (const auto* text = std::get_if<std::string>(&field.value)) body_ += json_string(*text);
  if (const auto* integer = std::get_if<int64_t>(&field.value)) body_ += std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&field.value)) body_ += json_number(*number);
  if (const auto* truth = std::get_if<bool>(&field.value)) body_ += *truth ? "true" : "false";
  return *this;
}

JsonObject& JsonObject::add_all(const Fields& fields) {
  for (const Field& field : fields) add(field);
  return *this;
}

JsonObject& JsonObject::add_json(std::string_view member, std::string_view json) {
  name(member);
  body_ += json;
  return *this;
}

std::string json_array(const std::vector<double>& values) { return array_of(values, json_number); }
std::string json_array(const std::vector<int64_t>& values) {
  return array_of(values, [](int64_t value) { return std::to_string(value); });
}
std::string json_array(const std::vector<std::string>& values) {
  return array_of(values, [](const std::string& value) { return json_string(value); });
}

}  // namespace aerie
