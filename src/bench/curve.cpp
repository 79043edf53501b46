// The training curve out of events.jsonl.
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "bench/report.h"

namespace aerie {
namespace {

using Json = nlohmann::json;

std::optional<double> number_of(const Json& event, const char* name) {
  const auto at = event.find(name);
  if (at == event.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

// A run that was killed and resumed writes some steps twice; what was done last is what the draft was made of.
template <class Point>
void add_after_dropping_redone(std::vector<Point>& points, Point point) {
  while (!points.empty() && points.back().step >= point.step) points.pop_back();
  points.push_back(std::move(point));
}

void take(const Json& event, TrainingCurve& curve) {
  const auto name = event.find("event");
  const std::optional<double> step = number_of(event, "step"), loss = number_of(event, "loss");
  if (name == event.end() || !name->is_string() || !step || !loss) return;
  if (*name == "train_step") {
    add_after_dropping_redone(curve.train, TrainPoint{static_cast<int64_t>(*step), *loss, number_of(event, "lr"),
                                                      number_of(event, "tokens_per_s")});
  } else if (*name == "validation") {
    ValidationPoint point;
    point.step = static_cast<int64_t>(*step);
    point.loss = *loss;
    if (const auto accuracy = event.find("accuracy"); accuracy != event.end() && accuracy->is_array()) {
      for (const Json& one : *accuracy) {
        if (!one.is_number()) break;
        point.accuracy.push_back(one.get<double>());
      }
    }
    point.acceptance_estimate = number_of(event, "acceptance_estimate");
    add_after_dropping_redone(curve.validation, std::move(point));
  }
}

}  // namespace

Result<TrainingCurve> read_training_curve(FileSystem& fs, const std::string& events_path) {
  TRY(const std::string text, read_file(fs, events_path));
  TrainingCurve curve;
  const std::vector<std::string_view> lines = split(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = trim(lines[i]);
    if (line.empty()) continue;
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object()) {
      if (i + 1 == lines.size()) break;  // no line end behind it: the writer was killed in the middle
      return corrupt(fmt::format("{}, line {}: not a JSON object; move the line out of the file to go on without it",
                                 events_path, i + 1));
    }
    take(event, curve);
  }
  return curve;
}

}  // namespace aerie
