// Configuration: one plain struct a room, whose fields are declared once and then serve TOML, --set, the environment,
// --help and the resolved file.
//
//   struct TrainConfig {
//     double lr = 1e-4;
//     void fields(FieldList& v) { v("lr", lr, "peak learning rate").range(0, 1); }
//   };
//   TrainConfig train;
//   Config config;
//   config.add("train", train);
//   CHECKED(config.load_toml(fs, "pipeline.toml"));   // [train] lr = 2e-4
//   CHECKED(config.set("train.lr=3e-4"));             // --set
//   CHECKED(config.load_environment());               // AERIE_TRAIN_LR
//
// A Config borrows the structs; they must outlive it and must not move. One thread. Errors are kInvalid and name the
// file and line (or the option, or the variable) and, for an unknown name, the nearest known one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace aerie {

struct ConfigField {
  using Place = std::variant<bool*, int*, int64_t*, double*, std::string*, std::vector<int>*, std::vector<std::string>*>;
  std::string name;
  Place place;
  std::string help;
  double low = 0, high = 0;  // range of a number, meant only when has_range
  bool has_range = false;
  std::vector<std::string> choices;  // allowed values of a string; empty = any

  ConfigField& range(double lowest, double highest);
  ConfigField& one_of(std::vector<std::string> allowed);
};

class FieldList {
 public:
  ConfigField& operator()(std::string name, ConfigField::Place place, std::string help);
  template <class T>
  ConfigField& operator()(std::string name, T& value, std::string help) {
    return (*this)(std::move(name), ConfigField::Place(&value), std::move(help));
  }
  const std::vector<ConfigField>& all() const { return fields_; }
  std::vector<ConfigField>& all() { return fields_; }

 private:
  std::vector<ConfigField> fields_;
};

class Config {
 public:
  template <class Room>
  void add(std::string room, Room& config) {
    FieldList list;
    config.fields(list);
    add_fields(std::move(room), std::move(list));
  }
  void add_fields(std::string room, FieldList fields);

  Status load_toml(FileSystem& fs, const std::string& path);
  Status load_toml_text(std::string_view text, std::string_view where);
  Status set(std::string_view assignment);  // "room.key=value"; value as in TOML, quotes optional for strings
  // Reads AERIE_<ROOM>_<KEY>; a variable AERIE_<known room>_<unknown key> is an error.
  Status load_environment(char** environment);

  std::string resolved_toml() const;  // every field with its value and help as a comment; loads back to the same
  std::string help(std::string_view room) const;  // lines "key  type (default)  help"
  std::vector<std::string> rooms() const;

 private:
  struct Room {
    std::string name;
    FieldList fields;
    std::vector<std::string> defaults;  // TOML text of each field as it was when added
  };
  std::vector<Room> rooms_;
};

}  // namespace aerie
