#include "app/stages.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"

namespace aerie {
namespace {

std::string record_path(const RunFolder& run, const std::string& name) { return run.file("stages/" + name + ".json"); }

Status write_record(FileSystem& fs, const RunFolder& run, const std::string& name, const StageRecord& record) {
  JsonObject json;
  json.add({"state", record.state})
      .add({"seconds", record.seconds})
      .add({"sentence", record.sentence})
      .add({"settings", record.settings})
      .add_json("outputs", json_array(record.outputs))
      .add_json("facts", JsonObject().add_all(record.facts).text())
      .add({"version", version_text()})
      .add({"time", utc_text(real_clock().wall_s())});
  CHECKED(fs.make_folders(run.file("stages")));
  return write_file_atomically(fs, record_path(run, name), json.text() + "\n");
}

Field field_of(const std::string& name, const nlohmann::json& value) {
  if (value.is_boolean()) return {name, value.get<bool>()};
  if (value.is_number_integer()) return {name, value.get<int64_t>()};
  if (value.is_number()) return {name, value.get<double>()};
  if (value.is_string()) return {name, value.get<std::string>()};
  return {name, value.dump()};
}

std::map<std::string, std::string> lines_of(const std::string& settings) {
  std::map<std::string, std::string> lines;
  for (std::string_view line : split(settings, '\n')) {
    const size_t at = line.find(" = ");
    if (at != std::string_view::npos) lines[std::string(line.substr(0, at))] = std::string(line.substr(at + 3));
  }
  return lines;
}

// Names the first setting that differs; empty when none does.
std::string difference(const std::string& then, const std::string& now) {
  const auto old_lines = lines_of(then), new_lines = lines_of(now);
  const auto shown = [](const std::map<std::string, std::string>& lines, const std::string& key) {
    const auto found = lines.find(key);
    return found == lines.end() ? std::string("absent") : found->second;
  };
  for (const auto* lines : {&new_lines, &old_lines})
    for (const auto& [key, value] : *lines)
      if (shown(old_lines, key) != shown(new_lines, key))
        return key + " was " + shown(old_lines, key) + ", is " + shown(new_lines, key);
  return "";
}

bool outputs_present(FileSystem& fs, const StageRecord& record) {
  return std::all_of(record.outputs.begin(), record.outputs.end(),
                     [&](const std::string& path) { return fs.info(path).ok(); });
}

// True when the stage needs no work.
Result<bool> already_done(FileSystem& fs, const RunFolder& run, const Stage& stage,
                          const std::optional<StageRecord>& record) {
  if (stage.always || !record || record->state != "done") return false;
  if (!outputs_present(fs, *record)) {
    log_warning("stage_outputs_missing", "stage " + stage.name + " is recorded as done, but its outputs are gone: doing it again");
    return false;
  }
  if (const std::string what = difference(record->settings, stage.settings); !what.empty())
    return invalid("stage " + stage.name + " in " + run.path() + " was done with other settings (" + what +
                   "); give the old value, use another run.folder, or add --redo " + stage.name);
  return true;
}

Status run_stage(FileSystem& fs, RunFolder& run, const Stage& stage, double seconds_before, std::stop_token stop) {
  CHECKED(run.event("stage_started", {{"stage", stage.name}}));
  const double began_s = real_clock().monotonic_s();
  Result<StageOutcome> outcome = stage.run(stop);
  const double seconds = seconds_before + real_clock().monotonic_s() - began_s;
  if (!outcome) {
    Error error = std::move(outcome).error();
    const std::string state = error.code == Code::kCancelled ? "interrupted" : "failed";
    // The stage's own error matters more than a record that could not be written (the disk may be the cause of both).
    if (Status written = write_record(fs, run, stage.name, {state, seconds, error.what, stage.settings, {}, {}}); !written)
      log_warning("stage_record_lost", written.error().what);
    return std::move(error).under(stage.name);
  }
  const StageRecord record{"done", seconds, outcome->sentence, stage.settings, outcome->outputs, outcome->facts};
  CHECKED(write_record(fs, run, stage.name, record));
  Fields fields{{"stage", stage.name}, {"seconds", seconds}};
  fields.insert(fields.end(), outcome->facts.begin(), outcome->facts.end());
  CHECKED(run.event("stage_done", fields));
  log_info("stage_done", stage.name + ": " + outcome->sentence + " (" + duration_text(seconds) + ")");
  return ok_status();
}

}  // namespace

Result<std::optional<StageRecord>> read_stage_record(FileSystem& fs, const RunFolder& run, const std::string& name) {
  const std::string path = record_path(run, name);
  TRY(const bool there, fs.exists(path));
  if (!there) return std::optional<StageRecord>();
  TRY(const std::string text, read_file(fs, path, 16 << 20));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  if (!json.is_object() || !is_text("state") || !is_text("settings") || !is_text("sentence"))
    return corrupt(path + " is not a stage record; remove it to do the stage again");
  StageRecord record;
  record.state = json["state"];
  record.seconds = json.contains("seconds") && json["seconds"].is_number() ? json["seconds"].get<double>() : 0;
  record.sentence = json["sentence"];
  record.settings = json["settings"];
  for (const auto& output : json.value("outputs", nlohmann::json::array()))
    if (output.is_string()) record.outputs.push_back(output);
  const nlohmann::json facts = json.value("facts", nlohmann::json::object());
  for (const auto& [key, value] : facts.items()) record.facts.push_back(field_of(key, value));
  return std::optional<StageRecord>(std::move(record));
}

Status run_stages(FileSystem& fs, RunFolder& run, const std::vector<Stage>& stages, const std::vector<std::string>& only,
                  std::stop_token stop) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (!only.empty() && std::find(only.begin(), only.end(), stage.name) == only.end()) continue;
    if (stop.stop_requested()) return cancelled("stopped before stage " + stage.name + "; the same command goes on from here");
    TRY(const std::optional<StageRecord> record, read_stage_record(fs, run, stage.name));
    TRY(const bool done, already_done(fs, run, stage, record));
    const std::string place = "stage " + std::to_string(i + 1) + " of " + std::to_string(stages.size()) + ", " + stage.name;
    if (done) {
      log_info("stage_skipped", place + ": done before (" + record->sentence + ")");
      continue;
    }
    log_info("stage_started", place + ": " + stage.purpose + (record ? " (goes on)" : ""));
    CHECKED(run_stage(fs, run, stage, record ? record->seconds : 0, stop));
  }
  return ok_status();
}

Status redo(FileSystem& fs, RunFolder& run, const std::vector<Stage>& stages, const std::string& from) {
  const auto first = std::find_if(stages.begin(), stages.end(), [&](const Stage& stage) { return stage.name == from; });
  if (first == stages.end()) {
    std::vector<std::string> names;
    for (const Stage& stage : stages) names.push_back(stage.name);
    return invalid("--redo " + from + ": there is no such stage; stages are " + join(names, ", "));
  }
  std::string stamp = utc_text(real_clock().wall_s());
  std::replace(stamp.begin(), stamp.end(), ':', '-');
  const std::string aside = run.file("old/" + stamp);
  CHECKED(fs.make_folders(aside + "/stages"));
  for (auto stage = first; stage != stages.end(); ++stage) {
    std::vector<std::string> names = stage->work;
    names.push_back("stages/" + stage->name + ".json");
    for (const std::string& name : names) {
      TRY(const bool there, fs.exists(run.file(name)));
      if (there) CHECKED(fs.rename(run.file(name), aside + "/" + name));
    }
  }
  CHECKED(fs.sync_folder(aside));
  CHECKED(fs.sync_folder(run.path()));
  log_info("redo", "earlier results of " + from + " and what follows were moved to " + aside);
  return ok_status();
}

}  // namespace aerie
