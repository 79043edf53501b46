#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/line_file.h"
#include "base/terminal_line.h"

namespace aerie {
namespace {

std::atomic<Level> lowest{Level::kInfo};
std::mutex file_mutex;
std::unique_ptr<WritableFile> log_file;

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

const char* name_of_level(Level level) {
  static const char* const kNames[] = {"debug", "info", "warning", "error"};
  return kNames[static_cast<int>(level)];
}

spdlog::logger& screen() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("aerie", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S %l  %v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

void write_line(Level level, std::string_view event, std::string_view sentence, const Fields& fields) {
  const std::lock_guard<std::mutex> lock(file_mutex);
  if (!log_file) return;
  JsonObject json;
  json.add({"t", real_clock().wall_s()})
      .add({"level", name_of_level(level)})
      .add({"event", event})
      .add({"message", sentence})
      .add_all(fields);
  if (const Status written = log_file->write(as_bytes(json.text() + "\n")); !written.ok()) {
    log_file.reset();
    screen().error("the log file is lost: {}", written.error().what);
  }
}

}  // namespace

void log(Level level, std::string_view event, std::string_view sentence, const Fields& fields) {
  if (level < lowest.load()) return;
  try {
    {
      const TerminalLine::Pause pause;  // a progress bar gives way to the line
      screen().log(level_of(level), "{}", sentence);
    }
    write_line(level, event, sentence, fields);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "aerie: a log line was lost: %s\n", error.what());
  }
}

void set_log_level(Level level) { lowest = level; }

Status set_log_file(const std::string& path) {
  const std::lock_guard<std::mutex> lock(file_mutex);
  log_file.reset();
  if (path.empty()) return ok_status();
  TRY(log_file, open_line_file(path));
  return ok_status();
}

}  // namespace aerie
