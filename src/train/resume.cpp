#include "train/resume.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tensor/safetensors.h"

namespace aerie {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "aerie-train-resume-1";

// An absent number is null.
Json json_of(const std::optional<double>& number) { return number ? Json(*number) : Json(); }
Json json_of(const ValidationResult& v) {
  return {{"loss", json_of(v.loss)}, {"accuracy", v.accuracy}, {"acceptance", json_of(v.acceptance)}};
}
std::optional<double> number_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}
ValidationResult validation_of(const Json& json) {
  return {number_of(json.at("loss")), json.at("accuracy").get<std::vector<double>>(), number_of(json.at("acceptance"))};
}

// nlohmann writes doubles so that they read back the same.
std::string text_of(const TrainState& s) {
  return Json{{"step", s.step},
              {"elapsed_s", s.elapsed_s},
              {"train_loss", json_of(s.train_loss)},
              {"validated_step", s.validated_step},
              {"validation", json_of(s.validation)},
              {"best_step", s.best_step},
              {"best", json_of(s.best)},
              {"finished", s.finished}}
      .dump();
}

TrainState state_of(const Json& json) {
  TrainState s;
  s.step = json.at("step").get<int64_t>();
  s.elapsed_s = json.at("elapsed_s").get<double>();
  s.train_loss = number_of(json.at("train_loss"));
  s.validated_step = json.at("validated_step").get<int64_t>();
  s.validation = validation_of(json.at("validation"));
  s.best_step = json.at("best_step").get<int64_t>();
  s.best = validation_of(json.at("best"));
  s.finished = json.at("finished").get<bool>();
  return s;
}

Status same_run(const Json& stored, const RunIdentity& identity, const std::string& path) {
  for (const auto& [name, value] : identity) {
    const std::string before = stored.value(name, "");
    if (before == value) continue;
    return invalid(
        fmt::format("{} was trained with {} = {}, but this run has {}; give the same, or use another run folder", path,
                    name, before.empty() ? "nothing" : before, value));
  }
  return ok_status();
}

}  // namespace

Status write_resume(FileSystem& fs, const std::string& path, const TrainState& state, const RunIdentity& identity,
                    const std::vector<Tensor>& tensors) {
  Json lines = Json::object();
  for (const auto& [name, value] : identity) lines[name] = value;
  std::vector<TensorView> views;
  for (const Tensor& t : tensors) views.push_back(t.view());
  return write_safetensors(fs, path, views,
                           {{"format", std::string(kFormat)}, {"state", text_of(state)}, {"identity", lines.dump()}});
}

Result<std::optional<Resumed>> read_resume(FileSystem& fs, const std::string& path, const RunIdentity& identity) {
  TRY(const bool there, fs.exists(path));
  if (!there) return std::optional<Resumed>();
  TRY(const SafetensorsFile file, SafetensorsFile::open(path));
  Resumed resumed;
  try {
    const Metadata& metadata = file.metadata();
    const auto format = metadata.find("format");
    if (format == metadata.end() || format->second != kFormat) {
      return invalid(fmt::format("{} is no state of a training run of this version", path));
    }
    CHECKED(same_run(Json::parse(metadata.at("identity")), identity, path));
    resumed.state = state_of(Json::parse(metadata.at("state")));
  } catch (const std::exception& error) {
    return corrupt(
        fmt::format("{}: its state cannot be read ({}); remove the file to start again", path, error.what()));
  }
  for (const TensorView& t : file.tensors()) {
    resumed.tensors.push_back({t.name, t.dtype, t.shape, {t.bytes.begin(), t.bytes.end()}});
  }
  return std::optional<Resumed>(std::move(resumed));
}

}  // namespace aerie
