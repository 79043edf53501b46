#include "base/config.h"

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/text.h"

namespace aerie {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string number_text(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = json_number(value);
  // TOML tells integers from floats by their look.
  if (text.find_first_of(".eE") == std::string::npos) text += ".0";
  return text;
}

template <class Values, class Text>
std::string list_text(const Values& values, Text text) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i > 0 ? ", " : "") + text(values[i]);
  return out + "]";
}

// The field's value as TOML. A JSON string is a TOML basic string.
std::string value_text(const ConfigField& field) {
  return std::visit(Overloaded{
                        [](bool* v) -> std::string { return *v ? "true" : "false"; },
                        [](int* v) { return std::to_string(*v); },
                        [](int64_t* v) { return std::to_string(*v); },
                        [](double* v) { return number_text(*v); },
                        [](std::string* v) { return json_string(*v); },
                        [](std::vector<int>* v) { return list_text(*v, [](int i) { return std::to_string(i); }); },
                        [](std::vector<std::string>* v) {
                          return list_text(*v, [](const std::string& s) { return json_string(s); });
                        },
                    },
                    field.place);
}

const char* type_text(const ConfigField& field) {
  static const char* const kNames[] = {"true or false", "integer",          "integer",      "number",
                                       "text",          "list of integers", "list of texts"};
  return kNames[field.place.index()];
}

// A bound or a value as people write it: 100000, not 1e+05.
std::string plain_number(double value) {
  if (std::floor(value) != value || std::abs(value) > 1e15) return json_number(value);
  return std::to_string(static_cast<int64_t>(value));
}

std::string limits_text(const ConfigField& field) {
  if (!field.choices.empty()) {
    std::vector<std::string> named = field.choices;
    for (std::string& choice : named)
      if (choice.empty()) choice = "\"\"";
    return "one of " + join(named, ", ");
  }
  if (!field.has_range) return "";
  return plain_number(field.low) + " to " + plain_number(field.high);
}

Status check_range(const ConfigField& field, double value) {
  if (field.has_range && !(value >= field.low && value <= field.high))
    return invalid("is " + plain_number(value) + ", allowed is " + limits_text(field));
  return ok_status();
}

Error wrong_type(const ConfigField& field) {
  const std::string type = type_text(field);
  return invalid("must be " + std::string(type == "true or false" ? "" : type == "integer" ? "an " : "a ") + type);
}

// Puts a TOML value into the field; the error says what is wrong with it, without the name.
Status assign(const ConfigField& field, const toml::node& node) {
  const auto integer = [&](auto* place) -> Status {
    using Int = std::remove_pointer_t<decltype(place)>;
    const auto value = node.value_exact<int64_t>();
    if (!value) return wrong_type(field);
    CHECKED(check_range(field, static_cast<double>(*value)));
    if (*value < std::numeric_limits<Int>::min() || *value > std::numeric_limits<Int>::max())
      return invalid("does not fit an integer");
    *place = static_cast<Int>(*value);
    return ok_status();
  };
  return std::visit(
      Overloaded{
          [&](bool* place) -> Status {
            const auto value = node.value_exact<bool>();
            if (!value) return wrong_type(field);
            *place = *value;
            return ok_status();
          },
          [&](int* place) { return integer(place); },
          [&](int64_t* place) { return integer(place); },
          [&](double* place) -> Status {
            const auto value = node.is_number() ? node.value<double>() : std::nullopt;
            if (!value || std::isnan(*value)) return wrong_type(field);
            CHECKED(check_range(field, *value));
            *place = *value;
            return ok_status();
          },
          [&](std::string* place) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return wrong_type(field);
            if (!field.choices.empty() &&
                std::find(field.choices.begin(), field.choices.end(), *value) == field.choices.end())
              return invalid("is '" + *value + "', allowed is " + limits_text(field));
            *place = *value;
            return ok_status();
          },
          [&](std::vector<int>* place) -> Status {
            const toml::array* array = node.as_array();
            if (array == nullptr) return wrong_type(field);
            std::vector<int> values;
            for (const toml::node& element : *array) {
              const auto value = element.value_exact<int64_t>();
              if (!value || *value < std::numeric_limits<int>::min() || *value > std::numeric_limits<int>::max())
                return wrong_type(field);
              CHECKED(check_range(field, static_cast<double>(*value)));
              values.push_back(static_cast<int>(*value));
            }
            *place = std::move(values);
            return ok_status();
          },
          [&](std::vector<std::string>* place) -> Status {
            const toml::array* array = node.as_array();
            if (array == nullptr) return wrong_type(field);
            std::vector<std::string> values;
            for (const toml::node& element : *array) {
              const auto value = element.value_exact<std::string>();
              if (!value) return wrong_type(field);
              if (!field.choices.empty() &&
                  std::find(field.choices.begin(), field.choices.end(), *value) == field.choices.end())
                return invalid("holds '" + *value + "', allowed is " + limits_text(field));
              values.push_back(*value);
            }
            *place = std::move(values);
            return ok_status();
          },
      },
      field.place);
}

bool holds_text(const ConfigField& field) { return std::holds_alternative<std::string*>(field.place); }
bool holds_texts(const ConfigField& field) { return std::holds_alternative<std::vector<std::string>*>(field.place); }

// A value as it stands on a command line or in the environment: TOML, except that texts need no quotes and a list of
// texts may be written with commas alone.
Status assign_word(const ConfigField& field, std::string_view word) {
  std::string toml_text(trim(word));
  if (holds_text(field) && !(toml_text.size() >= 2 && toml_text.front() == '"' && toml_text.back() == '"'))
    toml_text = json_string(word);
  if (holds_texts(field) && !toml_text.starts_with('[')) {
    std::vector<std::string> parts;
    for (std::string_view part : split(word, ',')) parts.push_back(json_string(trim(part)));
    toml_text = "[" + join(parts, ", ") + "]";
  }
  if (std::holds_alternative<std::vector<int>*>(field.place) && !toml_text.starts_with('['))
    toml_text = "[" + toml_text + "]";
  try {
    const toml::table table = toml::parse("value = " + toml_text);
    const toml::node* node = table.get("value");
    return node == nullptr || table.size() != 1 ? Status(wrong_type(field)) : assign(field, *node);
  } catch (const toml::parse_error&) {
    return wrong_type(field);
  }
}

ConfigField* find_field(FieldList& fields, std::string_view name) {
  for (ConfigField& field : fields.all())
    if (field.name == name) return &field;
  return nullptr;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "; known are " + join(known, ", ") : "; did you mean '" + near + "'?";
}

std::vector<std::string> names_of(const FieldList& fields) {
  std::vector<std::string> names;
  for (const ConfigField& field : fields.all()) names.push_back(field.name);
  return names;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

ConfigField& ConfigField::range(double lowest, double highest) {
  low = lowest, high = highest, has_range = true;
  return *this;
}

ConfigField& ConfigField::one_of(std::vector<std::string> allowed) {
  choices = std::move(allowed);
  return *this;
}

ConfigField& FieldList::operator()(std::string name, ConfigField::Place place, std::string help) {
  ConfigField field;
  field.name = std::move(name);
  field.place = place;
  field.help = std::move(help);
  fields_.push_back(std::move(field));
  return fields_.back();
}

void Config::add_fields(std::string room, FieldList fields) {
  std::vector<std::string> defaults;
  for (const ConfigField& field : fields.all()) defaults.push_back(value_text(field));
  rooms_.push_back({std::move(room), std::move(fields), std::move(defaults)});
}

Status Config::load_toml(FileSystem& fs, const std::string& path) {
  TRY(const std::string text, read_file(fs, path, 16 << 20));
  return load_toml_text(text, path);
}

Status Config::load_toml_text(std::string_view text, std::string_view where) {
  const auto at = [&](const toml::source_region& source) {
    return std::string(where) + ":" + std::to_string(source.begin.line) + ": ";
  };
  try {
    const toml::table root = toml::parse(text, std::string(where));
    for (const auto& [room_key, room_node] : root) {
      const std::string name(room_key.str());
      const auto room = std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& r) { return r.name == name; });
      if (room == rooms_.end())
        return invalid(at(room_node.source()) + "unknown table [" + name + "]" + did_you_mean(name, rooms()));
      const toml::table* table = room_node.as_table();
      if (table == nullptr)
        return invalid(at(room_node.source()) + name + " must be a table: write [" + name + "] on a line of its own");
      for (const auto& [key, node] : *table) {
        const std::string field_name(key.str());
        const ConfigField* field = find_field(room->fields, field_name);
        if (field == nullptr)
          return invalid(at(node.source()) + "unknown key '" + field_name + "' in [" + name + "]" +
                         did_you_mean(field_name, names_of(room->fields)));
        if (Status status = assign(*field, node); !status.ok())
          return invalid(at(node.source()) + name + "." + field_name + " " + status.error().what);
      }
    }
    return ok_status();
  } catch (const toml::parse_error& error) {
    return invalid(at(error.source()) + "not TOML: " + std::string(error.description()));
  }
}

Status Config::set(std::string_view assignment) {
  const std::string shown = "'" + std::string(assignment) + "'";
  const size_t equals = assignment.find('=');
  const size_t dot = assignment.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot > equals)
    return invalid("setting " + shown + " is not of the form ROOM.KEY=VALUE");
  const std::string name(trim(assignment.substr(0, dot))), key(trim(assignment.substr(dot + 1, equals - dot - 1)));
  const auto room = std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& r) { return r.name == name; });
  if (room == rooms_.end())
    return invalid("setting " + shown + ": unknown room '" + name + "'" + did_you_mean(name, rooms()));
  const ConfigField* field = find_field(room->fields, key);
  if (field == nullptr)
    return invalid("setting " + shown + ": unknown key '" + key + "'" + did_you_mean(key, names_of(room->fields)));
  if (Status status = assign_word(*field, assignment.substr(equals + 1)); !status.ok())
    return invalid("setting " + name + "." + key + " " + status.error().what);
  return ok_status();
}

Status Config::load_environment(char** environment) {
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const size_t equals = variable.find('=');
    if (equals == std::string_view::npos || !variable.starts_with("AERIE_")) continue;
    const std::string name(variable.substr(0, equals));
    for (Room& room : rooms_) {
      const std::string prefix = "AERIE_" + upper(room.name) + "_";
      if (!name.starts_with(prefix)) continue;
      const std::string key = name.substr(prefix.size());
      const auto field = std::find_if(room.fields.all().begin(), room.fields.all().end(),
                                      [&](const ConfigField& f) { return upper(f.name) == key; });
      if (field == room.fields.all().end()) {
        std::vector<std::string> known;
        for (const std::string& known_name : names_of(room.fields)) known.push_back(prefix + upper(known_name));
        return invalid("environment variable " + name + " names no setting" + did_you_mean(name, known));
      }
      if (Status status = assign_word(*field, variable.substr(equals + 1)); !status.ok())
        return invalid("environment variable " + name + " " + status.error().what);
    }
  }
  return ok_status();
}

std::string Config::resolved_toml() const {
  std::string text;
  for (const Room& room : rooms_) {
    text += (text.empty() ? "[" : "\n[") + room.name + "]\n";
    for (const ConfigField& field : room.fields.all())
      text += "# " + field.help + "\n" + field.name + " = " + value_text(field) + "\n";
  }
  return text;
}

std::string Config::help(std::string_view name) const {
  std::string text;
  for (const Room& room : rooms_) {
    if (room.name != name) continue;
    for (size_t i = 0; i < room.fields.all().size(); ++i) {
      const ConfigField& field = room.fields.all()[i];
      std::string line = "  " + field.name;
      line.resize(std::max<size_t>(line.size() + 1, 26), ' ');
      line += std::string(type_text(field)) + " (" + room.defaults[i] + ")  " + field.help;
      if (const std::string limits = limits_text(field); !limits.empty()) line += "; " + limits;
      text += line + "\n";
    }
  }
  return text;
}

std::vector<std::string> Config::rooms() const {
  std::vector<std::string> names;
  for (const Room& room : rooms_) names.push_back(room.name);
  return names;
}

}  // namespace aerie
