#include "base/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>

#include "base/log.h"
#include "base/run_folder.h"
#include "base/terminal_line.h"

namespace aerie {
namespace {

constexpr double kWindow_s = 60;     // of the recent rate
constexpr double kLineEvery_s = 10;  // where there is no terminal
constexpr double kDrawEvery_s = 0.2;
constexpr double kFileEvery_s = 1;

struct Mark {
  double at_s;
  int64_t done, second_done;
};

std::string rate_text(double rate, const std::string& unit) {
  char text[64];
  std::snprintf(text, sizeof text,
                rate >= 100 ? "%.0f %s/s"
                : rate >= 1 ? "%.1f %s/s"
                            : "%.3f %s/s",
                rate, unit.c_str());
  return text;
}

std::string value_text(const Field& field) {
  char text[64];
  if (const auto* number = std::get_if<double>(&field.value)) {
    std::snprintf(text, sizeof text, "%.4g", *number);
    return text;
  }
  if (const auto* integer = std::get_if<int64_t>(&field.value)) return std::to_string(*integer);
  if (const auto* truth = std::get_if<bool>(&field.value)) return *truth ? "yes" : "no";
  return std::get<std::string>(field.value);
}

}  // namespace

struct Progress::State {
  ProgressOptions options;
  RunFolder* run = nullptr;
  const Clock* clock = nullptr;
  std::mutex mutex;
  int64_t done = 0, second_done = 0;
  double began_s = 0, last_advance_s = 0, last_draw_s = -1e9, last_line_s = 0, last_file_s = -1e9;
  std::deque<Mark> marks;
  Fields facts;
  bool finished = false, file_lost = false;

  // Units a second over the last minute; absent once nothing was committed for the length of the window.
  std::optional<double> recent(bool second) const {
    const double now_s = clock->monotonic_s();
    if (marks.empty() || now_s - last_advance_s > kWindow_s) return std::nullopt;
    const Mark& from = marks.front();
    const double span_s = now_s - from.at_s;
    // Work that is committed in bursts has no rate before the first one: 0 would read as a stall.
    if (span_s < 0.5 || done == from.done) return std::nullopt;
    return static_cast<double>(second ? second_done - from.second_done : done - from.done) / span_s;
  }
  std::optional<double> overall(bool second) const {
    const double span_s = clock->monotonic_s() - began_s;
    if (span_s < 0.5) return std::nullopt;
    return static_cast<double>(second ? second_done : done) / span_s;
  }
  std::optional<double> left_s() const {
    std::optional<double> left;
    const auto rate = recent(false);
    if (options.total > 0 && rate && *rate > 0)
      left = static_cast<double>(std::max<int64_t>(0, options.total - options.done_before - done)) / *rate;
    if (options.ends_in_s > 0) {
      const double until_limit_s = std::max(0.0, options.ends_in_s - (clock->monotonic_s() - began_s));
      left = std::min(left.value_or(until_limit_s), until_limit_s);
    }
    return left;
  }
  // 0 to 1: of the units, or of the time limit where that comes first.
  double share() const {
    double share = static_cast<double>(options.done_before + done) / static_cast<double>(options.total);
    if (options.ends_in_s > 0) share = std::max(share, (clock->monotonic_s() - began_s) / options.ends_in_s);
    return std::clamp(share, 0.0, 1.0);
  }

  std::string text(bool with_bar) const {
    const int64_t shown = options.done_before + done;
    std::string line = options.stage + "  ";
    if (options.total > 0) {
      if (with_bar) {
        constexpr int kCells = 24;
        const int filled = static_cast<int>(share() * kCells);
        line += "[" + std::string(static_cast<size_t>(filled), '#') +
                std::string(static_cast<size_t>(kCells - filled), '.') + "] ";
      }
      line += std::to_string(static_cast<int>(100 * share())) + " %  " + std::to_string(shown) + "/" +
              std::to_string(options.total);
    } else {
      line += std::to_string(shown);
    }
    line += " " + options.unit;
    if (const auto rate = recent(false)) {
      line += "  " + rate_text(*rate, options.unit);
      if (!options.second_unit.empty())
        if (const auto second = recent(true)) line += "  " + rate_text(*second, options.second_unit);
    } else if (clock->monotonic_s() - last_advance_s > kWindow_s) {
      line += "  nothing finished for " + duration_text(clock->monotonic_s() - last_advance_s);
    }
    if (const auto left = left_s()) line += "  " + duration_text(*left) + " left";
    for (const Field& fact : facts) line += "  " + fact.name + " " + value_text(fact);
    return line;
  }

  std::string json(const std::string& state) const {
    JsonObject object;
    object.add({"t", clock->wall_s()}).add({"stage", options.stage}).add({"state", state}).add({"unit", options.unit});
    object.add({"done", options.done_before + done});
    if (options.total > 0) object.add({"total", options.total});
    const auto number = [&](const char* name, std::optional<double> value) {
      if (value) object.add({name, *value});
    };
    number("rate_last_minute", recent(false));
    number("rate_run", overall(false));
    number("eta_s", left_s());
    number("seconds_since_progress", clock->monotonic_s() - last_advance_s);
    if (!options.second_unit.empty()) {
      object.add({"second_unit", options.second_unit}).add({"second_done", second_done});
      number("second_rate_last_minute", recent(true));
      number("second_rate_run", overall(true));
    }
    object.add_json("facts", JsonObject().add_all(facts).text());
    return object.text();
  }

  void write_file(const std::string& state) {
    if (run == nullptr || file_lost) return;
    if (const Status written = run->progress(json(state)); !written.ok()) {
      file_lost = true;
      log_warning("progress_lost", "progress is no longer written: " + written.error().what);
    }
  }

  void tick() {
    const double now_s = clock->monotonic_s();
    while (marks.size() > 1 && now_s - marks.front().at_s > kWindow_s) marks.pop_front();
    if (TerminalLine::is_terminal()) {
      if (now_s - last_draw_s >= kDrawEvery_s) {
        TerminalLine::show(text(true));
        last_draw_s = now_s;
      }
    } else if (now_s - last_line_s >= kLineEvery_s) {
      last_line_s = now_s;
      log_info("progress", text(false));
    }
    if (now_s - last_file_s >= kFileEvery_s) {
      last_file_s = now_s;
      write_file("running");
    }
  }
};

Progress::Progress(ProgressOptions options, RunFolder* run, const Clock& clock) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->run = run;
  state_->clock = &clock;
  state_->began_s = state_->last_advance_s = state_->last_line_s = clock.monotonic_s();
  state_->marks.push_back({state_->began_s, 0, 0});
  state_->tick();
}

Progress::~Progress() {
  if (state_->finished) return;
  TerminalLine::end();
  state_->write_file("stopped");
}

void Progress::advance(int64_t units, int64_t second_units) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->done += units;
  state_->second_done += second_units;
  state_->last_advance_s = state_->clock->monotonic_s();
  // One mark a second is enough for a rate over a minute.
  if (state_->last_advance_s - state_->marks.back().at_s >= 1)
    state_->marks.push_back({state_->last_advance_s, state_->done, state_->second_done});
  state_->tick();
}

void Progress::facts(Fields fields) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->facts = std::move(fields);
}

void Progress::tick() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->tick();
}

void Progress::finish(const std::string& sentence) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->finished = true;
  if (TerminalLine::is_terminal()) TerminalLine::show(state_->text(true));
  TerminalLine::end();
  state_->write_file("done");
  if (!sentence.empty()) log_info("progress_done", state_->options.stage + ": " + sentence);
}

std::string duration_text(double seconds) {
  const int64_t whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char text[64];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld h %02lld min", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60));
  else if (whole >= 60)
    std::snprintf(text, sizeof text, "%lld min %02lld s", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(whole));
  return text;
}

}  // namespace aerie
