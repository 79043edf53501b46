#include "base/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <mutex>

#include "base/file_lock.h"
#include "base/line_file.h"
#include "base/log.h"
#include "base/text.h"

namespace aerie {
namespace {

// Kernel files such as boot_id say size 0, so they are read until they end.
std::string kernel_text(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[256];
  const ssize_t got = ::read(fd, text, sizeof text);
  ::close(fd);
  return got <= 0 ? "" : std::string(trim(std::string_view(text, static_cast<size_t>(got))));
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

struct RunFolder::State {
  std::string path;
  const Clock* clock = nullptr;
  FileLock lock;
  JsonObject facts;  // members of run.json that do not change
  bool finished = false;
  std::mutex mutex;
  std::unique_ptr<WritableFile> events;

  Status write_run_json(const std::string& state, const std::string& sentence) {
    JsonObject json = facts;
    json.add({"state", state}).add({"message", sentence}).add({"updated", utc_text(clock->wall_s())});
    return write_file_atomically(real_file_system(), path + "/run.json", json.text() + "\n");
  }
};

namespace {

// What killed writes left in the run's folders, such as checkpoints/last. A folder with a lock of its own (a store) is
// cleaned by who takes that, and one that cannot be read is somebody else's.
Status clean(FileSystem& fs, const std::string& folder, int levels_below) {
  CHECKED(remove_temporaries(fs, folder));
  if (levels_below == 0) return ok_status();
  TRY(const std::vector<std::string> names, fs.list(folder));
  for (const std::string& name : names) {
    const std::string inner = folder + "/" + name;
    const auto facts = fs.info(inner), lock = fs.info(inner + "/lock");
    if (!facts || !facts->folder || lock || lock.error().code != Code::kNotFound) continue;
    if (const Status cleaned = clean(fs, inner, levels_below - 1); !cleaned)
      log_warning("leftovers_stay", cleaned.error().what);
  }
  return ok_status();
}

}  // namespace

RunFolder::RunFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<RunFolder>> RunFolder::open(const std::string& path, const std::vector<std::string>& argv,
                                                   const std::string& resolved_config, const Clock& clock) {
  FileSystem& fs = real_file_system();
  CHECKED(fs.make_folders(path));
  auto state = std::make_unique<State>();
  state->path = path;
  state->clock = &clock;
  TRY(state->lock, FileLock::take(path + "/lock", "run folder " + path));
  CHECKED(clean(fs, path, 2));
  TRY(state->events, open_line_file(path + "/events.jsonl"));
  state->facts.add_json("argv", json_array(argv))
      .add({"version", version_text()})
      .add({"host", host_name()})
      .add({"pid", ::getpid()})
      .add({"boot_id", kernel_text("/proc/sys/kernel/random/boot_id")})
      .add({"start_time", utc_text(clock.wall_s())});
  CHECKED(state->write_run_json("running", ""));
  if (!resolved_config.empty()) CHECKED(write_file_atomically(fs, path + "/config.toml", resolved_config));
  CHECKED(set_log_file(path + "/log.jsonl"));
  return std::unique_ptr<RunFolder>(new RunFolder(std::move(state)));
}

RunFolder::~RunFolder() {
  if (!state_->finished)
    if (const Status status = state_->write_run_json("interrupted", ""); !status.ok())
      log_warning("run_state_lost", status.error().what);
  (void)set_log_file("").ok();  // closing cannot fail in a way that someone could act on
}

const std::string& RunFolder::path() const { return state_->path; }

Status RunFolder::event(const std::string& name, const Fields& fields, const std::string& extra_json_members) {
  JsonObject json;
  json.add({"t", state_->clock->wall_s()}).add({"event", name}).add_all(fields);
  std::string line = json.text();
  if (!extra_json_members.empty()) line.insert(line.size() - 1, "," + extra_json_members);
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->events->write(as_bytes(line + "\n"));
}

Status RunFolder::progress(const std::string& json) {
  return replace_file(real_file_system(), file("progress.json"), json + "\n");
}

Status RunFolder::finish(const std::string& end_state, const std::string& sentence) {
  state_->finished = true;
  return state_->write_run_json(end_state, sentence);
}

std::string version_text() { return "aerie " AERIE_VERSION " (g++ " __VERSION__ ")"; }

}  // namespace aerie
