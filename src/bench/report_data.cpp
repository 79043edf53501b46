// The data of the report's charts, as page/report.js reads it.
#include <algorithm>

#include "base/json.h"
#include "bench/report_parts.h"

namespace aerie {
namespace {

constexpr size_t kMostPoints = 300;  // more cannot be told apart on a page

std::string list_of(const std::vector<std::string>& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i ? "," : "") + items[i];
  return text + "]";
}

std::string pair_of(double x, double y) { return "{\"x\":" + json_number(x) + ",\"y\":" + json_number(y) + "}"; }

std::string train_points(const std::vector<TrainPoint>& points) {
  std::vector<std::string> items;
  const size_t bucket = std::max<size_t>(1, (points.size() + kMostPoints - 1) / kMostPoints);
  for (size_t begin = 0; begin < points.size(); begin += bucket) {
    const size_t end = std::min(points.size(), begin + bucket);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += points[i].loss;
    items.push_back(pair_of(static_cast<double>(points[end - 1].step), sum / static_cast<double>(end - begin)));
  }
  return list_of(items);
}

std::string validation_loss(const std::vector<ValidationPoint>& points) {
  std::vector<std::string> items;
  for (const ValidationPoint& point : points) items.push_back(pair_of(static_cast<double>(point.step), point.loss));
  return list_of(items);
}

std::string accuracy(const std::vector<ValidationPoint>& points) {
  size_t steps = 0;
  for (const ValidationPoint& point : points) steps = std::max(steps, point.accuracy.size());
  std::vector<std::string> all;
  for (size_t k = 0; k < steps; ++k) {
    std::vector<std::string> items;
    for (const ValidationPoint& point : points) {
      if (k < point.accuracy.size()) items.push_back(pair_of(static_cast<double>(point.step), point.accuracy[k]));
    }
    all.push_back(list_of(items));
  }
  return list_of(all);
}

std::string optional_number(const std::optional<double>& value) { return value ? json_number(*value) : "null"; }

std::string way_json(const WayResult& way) {
  JsonObject object;
  object.add({"drafted", way.draft_length});
  object.add_json("speedup", optional_number(way.speedup_total));
  object.add_json("quartiles",
                  way.speedup ? json_array(std::vector<double>{way.speedup->q1, way.speedup->q3}) : "null");
  object.add({"yields", way.acceptance_length});
  object.add_json("verify", optional_number(way.verify_cost));
  std::optional<double> draft, rest;
  if (way.draft_step_cost && way.round_cost && way.verify_cost && way.rounds > 0) {
    draft = *way.draft_step_cost * static_cast<double>(way.drafted) / static_cast<double>(way.rounds);
    rest = std::max(0.0, *way.round_cost - *way.verify_cost - *draft);
  }
  object.add_json("draft", optional_number(draft));
  object.add_json("rest", optional_number(rest));
  object.add_json("acceptance", json_array(way.acceptance));
  object.add_json("given", json_array(way.acceptance_given_before));
  return object.text();
}

}  // namespace

std::string chart_data(const ReportData& data) {
  std::vector<std::string> benches;
  for (const BenchResult& bench : data.benches) {
    std::vector<std::string> ways;
    for (const WayResult& way : bench.ways) {
      if (way.draft_length > 0) ways.push_back(way_json(way));
    }
    benches.push_back(JsonObject().add({"label", bench.subject.label}).add_json("ways", list_of(ways)).text());
  }
  JsonObject loss;
  loss.add_json("train", train_points(data.training.train));
  loss.add_json("validation", validation_loss(data.training.validation));
  JsonObject all;
  all.add_json("benches", list_of(benches));
  all.add_json("loss", loss.text());
  all.add_json("accuracy", accuracy(data.training.validation));
  return all.text();
}

}  // namespace aerie
