// Writing JSON, one flat line or a nested document, without a JSON library in any header.
//
// Plain values, one thread at a time. Text that is not UTF-8 is written with U+FFFD for the bad bytes; numbers that
// JSON cannot say (NaN, infinity) become null, never 0. Reading JSON is done by nlohmann-json inside .cpp files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace aerie {

// One named value of an event or a log line.
struct Field {
  std::string name;
  std::variant<std::string, int64_t, double, bool> value;

  Field(std::string n, const char* v) : name(std::move(n)), value(std::string(v)) {}
  Field(std::string n, std::string v) : name(std::move(n)), value(std::move(v)) {}
  Field(std::string n, std::string_view v) : name(std::move(n)), value(std::string(v)) {}
  Field(std::string n, double v) : name(std::move(n)), value(v) {}
  Field(std::string n, bool v) : name(std::move(n)), value(v) {}
  template <class Int>
    requires std::is_integral_v<Int>
  Field(std::string n, Int v) : name(std::move(n)), value(static_cast<int64_t>(v)) {}
};
using Fields = std::vector<Field>;

// The text as a JSON string, quotes included.
std::string json_string(std::string_view text);
std::string json_number(double value);

// Builds one JSON object, members in the order of the calls.
class JsonObject {
 public:
  JsonObject& add(const Field& field);
  JsonObject& add_all(const Fields& fields);
  // Adds a member whose value is JSON already.
  JsonObject& add_json(std::string_view name, std::string_view json);
  std::string text() const { return body_ + "}"; }

 private:
  void name(std::string_view name);
  std::string body_ = "{";
};

std::string json_array(const std::vector<double>& values);
std::string json_array(const std::vector<int64_t>& values);
std::string json_array(const std::vector<std::string>& values);

}  // namespace aerie
