// Any bytes as text in JSON: what is written is UTF-8 without raw control characters, and well-formed text comes back
// the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/text.h"

namespace {

unsigned hex(char digit) { return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

// The reverse of json_string, for what it writes; aborts on anything else.
std::string read_back(std::string_view json) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') std::abort();
  json = json.substr(1, json.size() - 2);
  std::string text;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"' || static_cast<unsigned char>(c) < 0x20) std::abort();
    if (c != '\\') {
      text += c;
      continue;
    }
    if (++i == json.size()) std::abort();
    switch (json[i]) {
      case '"':
      case '\\': text += json[i]; break;
      case 'n': text += '\n'; break;
      case 'r': text += '\r'; break;
      case 't': text += '\t'; break;
      case 'u':
        if (i + 4 >= json.size() || json.substr(i + 1, 2) != "00") std::abort();
        text += static_cast<char>(hex(json[i + 3]) * 16 + hex(json[i + 4]));
        i += 4;
        break;
      default: std::abort();
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string json = aerie::json_string(text);
  if (!aerie::valid_utf8(json)) std::abort();
  const std::string back = read_back(json);
  if (aerie::valid_utf8(text) && back != text) std::abort();
  if (!aerie::valid_utf8(text) && back.find("\xEF\xBF\xBD") == std::string::npos) std::abort();
  if (!aerie::valid_utf8(aerie::JsonObject().add({std::string(text), text}).text())) std::abort();
  return 0;
}
