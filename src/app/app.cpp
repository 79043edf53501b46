#include "app/app.h"

#include <unistd.h>

#include <cstdio>

#include "app/command_line.h"
#include "app/look.h"
#include "app/pipeline.h"
#include "base/log.h"
#include "base/stop.h"

namespace aerie {
namespace {

int report(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "aerie: %s\n", status.error().what.c_str());
  return exit_code(status.error());
}

// Defaults, then the file, then the environment, then the command line: the nearer to the hand, the stronger.
Status read_settings(Settings& settings, const CommandLine& line) {
  if (line.command == "demo") apply_demo_defaults(settings);
  if (!line.config_file.empty()) CHECKED(settings.config.load_toml(real_file_system(), line.config_file));
  CHECKED(settings.config.load_environment(environ));
  for (const std::string& assignment : line.overrides) CHECKED(settings.config.set(assignment));
  return ok_status();
}

Status run_in(RunFolder& run, const Settings& settings, const CommandLine& line, std::stop_token stop) {
  Pipeline pipeline(settings, run);
  const std::vector<Stage> stages = pipeline.stages();
  if (!line.redo.empty()) CHECKED(redo(real_file_system(), run, stages, line.redo));
  std::vector<std::string> only;
  if (line.command != "demo" && line.command != "run") {
    only = {line.command};
    bool known = false;
    for (const Stage& stage : stages) known = known || stage.name == line.command;
    if (!known)
      return invalid(line.command + " has nothing to work on: give --prompts FILE (or " + line.command + ".prompts in the settings file)");
  }
  return run_stages(real_file_system(), run, stages, only, stop);
}

Status run_pipeline(const Settings& settings, const CommandLine& line, const std::vector<std::string>& words) {
  const std::stop_token stop = stop_on_signals();
  TRY(const std::unique_ptr<RunFolder> run, RunFolder::open(settings.run.folder, words, settings.config.resolved_toml()));
  // run.json and config.toml are the last command's; what the earlier ones were given stands in the events.
  CHECKED(run->event("command_started", {{"config", settings.config.resolved_toml()}}, "\"argv\":" + json_array(words)));
  const Status status = run_in(*run, settings, line, stop);
  const bool stopped = !status.ok() && status.error().code == Code::kCancelled;
  // The result of the run is what the caller gets; a run.json that could not be written is only worth a warning.
  const Status noted = run->finish(status.ok() ? "done" : stopped ? "interrupted" : "failed", status.ok() ? "" : status.error().what);
  if (!noted.ok()) log_warning("run_state_lost", noted.error().what);
  if (status.ok() && (line.command == "demo" || line.command == "run"))
    std::printf("%s\n", run->file("report.html").c_str());
  if (stopped) std::fprintf(stderr, "aerie: the same command goes on from here\n");
  return status;
}

}  // namespace

int run_app(int argc, char** argv) {
  Settings settings;
  const auto parsed = parse_command_line(argc, argv, settings);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const CommandLine& line = std::get<CommandLine>(parsed);
  if (line.verbose) set_log_level(Level::kDebug);
  if (line.command == "info") return report(info(line.paths));
  if (line.command == "store")
    return report(line.action == "verify" ? store_verify(line.paths.front(), line.json) : store_status(line.paths.front(), line.json));
  if (Status status = read_settings(settings, line); !status.ok()) return report(status);
  return report(run_pipeline(settings, line, std::vector<std::string>(argv, argv + argc)));
}

}  // namespace aerie
