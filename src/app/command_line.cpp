#include "app/command_line.h"

#include <CLI/CLI.hpp>

#include "base/run_folder.h"

namespace aerie {
namespace {

// A flag that is short for --set room.key=VALUE.
struct Shortcut {
  const char* flag;
  const char* key;
  const char* help;
};

struct CommandSpec {
  const char* name;
  const char* help;
  std::vector<const char*> rooms;  // whose settings `--help` lists
  std::vector<Shortcut> shortcuts;
};

const Shortcut kFolder{"--folder", "run.folder", "run folder: everything about the run, and its results"};
const Shortcut kModel{"--model", "target.model", "the target's GGUF file"};

const std::vector<CommandSpec>& stage_commands() {
  static const std::vector<CommandSpec> commands = {
      {"demo", "the whole pipeline on a small real model; ends with a report",
       {"run", "target", "generate", "extract", "store", "train", "export", "bench"},
       {kFolder, kModel}},
      {"run", "all stages of a pipeline file, in order; skips what is done, resumes what is not",
       {"run", "target", "generate", "extract", "store", "train", "export", "bench"},
       {kFolder, kModel}},
      {"generate", "prompts -> conversations answered by the target (token ids kept verbatim)",
       {"run", "target", "generate"},
       {kFolder, kModel, {"--prompts", "generate.prompts", "prompts, JSONL or text"},
        {"--conversations", "run.conversations", "where the conversations go"}}},
      {"extract", "conversations -> store of hidden states",
       {"run", "target", "extract", "store"},
       {kFolder, kModel, {"--conversations", "run.conversations", "JSONL: ours, ShareGPT or OpenAI messages"},
        {"--store", "run.store", "where the store is or will be"}}},
      {"train", "store -> draft checkpoint",
       {"run", "train"},
       {kFolder, {"--store", "run.store", "the store to learn from"}}},
      {"export", "checkpoint -> gguf (llama.cpp) or hf (SGLang, vLLM, speculators)",
       {"run", "target", "export"},
       {kFolder, kModel, {"--checkpoint", "run.checkpoint", "a draft.safetensors of the trainer"},
        {"--flavor", "export.flavors", "a list of gguf, sglang, vllm, speculators"}}},
      {"bench", "target alone against target + draft: acceptance, speed-up, output equality",
       {"run", "target", "bench"},
       {kFolder, kModel, {"--draft", "run.draft", "the draft's GGUF file"},
        {"--prompts", "bench.prompts", "held-out prompts"}}},
      {"report", "writes report.html of a run folder again", {"run"}, {kFolder}},
  };
  return commands;
}

std::string settings_help(const Settings& settings, const std::vector<const char*>& rooms) {
  std::string text = "\nSettings (in a TOML file, by --set ROOM.KEY=VALUE, or AERIE_ROOM_KEY in the environment):\n";
  for (const char* room : rooms) {
    const std::string lines = settings.config.help(room);
    if (!lines.empty()) text += "\n[" + std::string(room) + "]\n" + lines;
  }
  return text;
}

void add_stage_command(CLI::App& app, const CommandSpec& spec, const Settings& settings, CommandLine& line) {
  CLI::App* command = app.add_subcommand(spec.name, spec.help);
  if (std::string(spec.name) == "run")
    command->add_option("pipeline", line.config_file, "pipeline file (TOML)")->required();
  else
    command->add_option("-c,--config", line.config_file, "settings file (TOML)");
  for (const Shortcut& shortcut : spec.shortcuts) {
    const std::string key = shortcut.key;
    command->add_option_function<std::string>(
        shortcut.flag, [&line, key](const std::string& value) { line.overrides.push_back(key + "=" + value); },
        std::string(shortcut.help) + " (short for --set " + key + "=...)");
  }
  command->add_option_function<std::vector<std::string>>(
      "--set",
      [&line](const std::vector<std::string>& all) { line.overrides.insert(line.overrides.end(), all.begin(), all.end()); },
      "one setting, ROOM.KEY=VALUE; may be given many times")->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--redo", line.redo, "moves the results of this stage and later ones aside and does them again");
  command->callback([&line, name = std::string(spec.name)] { line.command = name; });
  command->footer([&settings, &spec] { return settings_help(settings, spec.rooms); });
}

void add_look_commands(CLI::App& app, CommandLine& line) {
  CLI::App* store = app.add_subcommand("store", "looks after a store of hidden states");
  store->require_subcommand(1);
  for (const auto& [name, help] : {std::pair{"status", "what is in it: samples, tokens, target, boundaries"},
                                   std::pair{"verify", "reads every byte and checks every sum"}}) {
    CLI::App* action = store->add_subcommand(name, help);
    action->add_option("store", line.paths, "the store's folder")->required()->expected(1);
    action->add_flag("--json", line.json, "one JSON object instead of text");
    action->callback([&line, name = std::string(name)] { line.command = "store", line.action = name; });
  }
  CLI::App* info = app.add_subcommand("info", "what this binary can do; facts of a model, a draft, a store");
  info->add_option("path", line.paths, "GGUF files, draft folders, checkpoints, stores");
  info->callback([&line] { line.command = "info"; });
}

}  // namespace

std::variant<CommandLine, int> parse_command_line(int argc, char** argv, const Settings& settings) {
  CommandLine line;
  CLI::App app("Aerie trains EAGLE-3 draft models for speculative decoding, and measures what they bring.", "aerie");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", version_text());
  app.add_flag("-v,--verbose", line.verbose, "also says what is of interest only when something is wrong");
  app.footer("\nExit codes: 0 done, 1 failed, 2 bad use or settings, 3 try later (full, unreachable), 4 corrupt data, 130 interrupted.\n"
             "`aerie COMMAND --help` lists a command's settings.");
  for (const CommandSpec& spec : stage_commands()) add_stage_command(app, spec, settings, line);
  add_look_commands(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  return line;
}

}  // namespace aerie
