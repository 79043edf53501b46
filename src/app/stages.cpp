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
      .add({"made", record.made})
      .add({"after", record.after})
      .add({"more", record.more})
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

Result<bool> present(FileSystem& fs, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    TRY(const bool there, fs.exists(path));
    if (!there) return false;
  }
  return true;
}

// Whether a stage that did not end has left something that its next attempt would go on with.
bool has_begun(FileSystem& fs, const Stage& stage) {
  return std::any_of(stage.work.begin(), stage.work.end(), [&](const std::string& path) {
    const auto info = fs.info(path);
    if (!info) return false;
    if (!info->folder) return info->size_bytes > 0;
    const auto names = fs.list(path);
    return !names || !names->empty();
  });
}

std::string all_settings(const Stage& stage) { return stage.settings + stage.how_much; }

// The recorded settings without those that say how much.
std::string compared_settings(const StageRecord& record, const Stage& stage) {
  const auto amounts = lines_of(stage.how_much);
  std::string kept;
  for (const auto& [key, value] : lines_of(record.settings))
    if (!amounts.contains(key)) kept += key + " = " + value + "\n";
  return kept;
}

enum class Need { kNothing, kWork };

// The state of the stage that this one reads: `made` of its record, empty when there is none.
Result<std::string> input_of(FileSystem& fs, const RunFolder& run, const Stage& stage) {
  if (stage.after.empty()) return std::string();
  TRY(const auto record, read_stage_record(fs, run, stage.after));
  return record ? record->made : std::string();
}

Result<Need> need_of(FileSystem& fs, const RunFolder& run, const Stage& stage, const std::optional<StageRecord>& record,
                     const std::string& input, bool named) {
  if (stage.always || !record) return Need::kWork;
  const std::string redo = "add --redo " + stage.name + " to move its results aside and do it again";
  const std::string changed = difference(compared_settings(*record, stage), stage.settings);
  if (record->state != "done") {
    if (!changed.empty() && has_begun(fs, stage))
      return invalid("stage " + stage.name + " in " + run.path() + " was begun with other settings (" + changed +
                     "); give the old value, use another run.folder, or " + redo);
    return Need::kWork;
  }
  TRY(const bool whole, present(fs, record->outputs));
  if (!whole) {
    log_warning("stage_outputs_missing", "stage " + stage.name + " is recorded as done, but its outputs are gone: doing it again");
    return Need::kWork;
  }
  if (!changed.empty())
    return invalid("stage " + stage.name + " in " + run.path() + " was done with other settings (" + changed +
                   "); give the old value, use another run.folder, or " + redo);
  const bool other_input = !record->after.empty() && !input.empty() && record->after != input;
  const bool other_amount = !difference(record->settings, all_settings(stage)).empty();
  if (stage.grows && (other_input || other_amount || (named && record->more))) return Need::kWork;
  if (other_input)
    return invalid("stage " + stage.name + " in " + run.path() + " was done with what stage " + stage.after +
                   " had made before, and that was made anew since; " + redo + ", or use another run.folder");
  return Need::kNothing;
}

Status run_stage(FileSystem& fs, RunFolder& run, const Stage& stage, const std::optional<StageRecord>& before,
                 const std::string& input, std::stop_token stop) {
  // First of all the settings, so that a killed attempt cannot be gone on with under others.
  StageRecord record{"running", before ? before->seconds : 0, "", all_settings(stage), {}, {}, "", input};
  if (before) record.made = before->made;
  CHECKED(write_record(fs, run, stage.name, record));
  CHECKED(run.event("stage_started", {{"stage", stage.name}}));
  const double began_s = real_clock().monotonic_s();
  Result<StageOutcome> outcome = stage.run(stop);
  record.seconds += real_clock().monotonic_s() - began_s;
  if (!outcome) {
    Error error = std::move(outcome).error();
    record.state = error.code == Code::kCancelled ? "interrupted" : "failed";
    record.sentence = error.what;
    // The stage's own error matters more than a record that could not be written (the disk may be the cause of both).
    if (Status written = write_record(fs, run, stage.name, record); !written)
      log_warning("stage_record_lost", written.error().what);
    return std::move(error).under(stage.name);
  }
  record.state = "done";
  record.sentence = outcome->sentence;
  record.outputs = outcome->outputs;
  record.facts = outcome->facts;
  record.more = outcome->more;
  if (!outcome->nothing_new || record.made.empty())
    record.made = std::to_string(static_cast<int64_t>(real_clock().wall_s() * 1e6));
  CHECKED(write_record(fs, run, stage.name, record));
  Fields fields{{"stage", stage.name}, {"seconds", record.seconds}};
  fields.insert(fields.end(), outcome->facts.begin(), outcome->facts.end());
  CHECKED(run.event("stage_done", fields));
  log_info("stage_done", stage.name + ": " + outcome->sentence + " (" + duration_text(record.seconds) + ")");
  return ok_status();
}

// Under <run>/old/<time>/, or, for what lies elsewhere, beside itself: a rename never crosses a file system then.
std::string aside_path(const RunFolder& run, const std::string& path, const std::string& stamp) {
  const std::string inside = run.path() + "/";
  return path.starts_with(inside) ? run.file("old/" + stamp + "/" + path.substr(inside.size())) : path + ".old-" + stamp;
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
  for (const auto& [key, member] : {std::pair{"made", &record.made}, std::pair{"after", &record.after}})
    if (is_text(key)) *member = json[key];
  record.more = json.contains("more") && json["more"].is_boolean() && json["more"].get<bool>();
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
    TRY(const std::string input, input_of(fs, run, stage));
    TRY(const Need need, need_of(fs, run, stage, record, input, !only.empty()));
    const std::string place = "stage " + std::to_string(i + 1) + " of " + std::to_string(stages.size()) + ", " + stage.name;
    if (need == Need::kNothing) {
      log_info("stage_skipped", place + ": done before (" + record->sentence + ")" +
                                    (record->more ? "; aerie " + stage.name + " goes on" : ""));
      continue;
    }
    log_info("stage_started", place + ": " + stage.purpose + (record ? " (goes on)" : ""));
    CHECKED(run_stage(fs, run, stage, record, input, stop));
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
    std::vector<std::string> paths = stage->work;
    paths.push_back(record_path(run, stage->name));
    for (const std::string& path : paths) {
      TRY(const bool there, fs.exists(path));
      if (!there) continue;
      const std::string to = aside_path(run, path, stamp);
      CHECKED(fs.make_folders(folder_of(to)));
      CHECKED(fs.rename(path, to));
      CHECKED(fs.sync_folder(folder_of(path)));
    }
  }
  CHECKED(fs.sync_folder(aside));
  CHECKED(fs.sync_folder(run.path()));
  log_info("redo", "earlier results of " + from + " and what follows were moved to " + aside);
  return ok_status();
}

}  // namespace aerie
