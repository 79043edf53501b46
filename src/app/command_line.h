// Words on the command line, turned into a plain struct. The only user of CLI11 is command_line.cpp. Private to app.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/settings.h"

namespace aerie {

struct CommandLine {
  std::string command;                 // "demo", "run", "generate", ..., "store", "info"
  std::string action;                  // of `store`: status, verify
  std::vector<std::string> paths;      // what info and store look at; the pipeline file of `run`
  std::string config_file;             // --config
  std::vector<std::string> overrides;  // "room.key=value", in the order given: flags such as --model, then --set
  std::string redo;                    // --redo STAGE
  bool json = false;                   // --json
  bool verbose = false;                // -v
};

// What to run, or the exit code to leave with at once (help, version, bad use: text has been printed).
std::variant<CommandLine, int> parse_command_line(int argc, char** argv, const Settings& settings);

}  // namespace aerie
