// The folder in which a run can be understood later, by people, by the watcher, and by the run itself when it goes on.
//
//   run.json        what was started: command line, version, host, pid, start time, state (running, done, failed, ...)
//   config.toml     the resolved configuration
//   events.jsonl    one JSON object a line: {"t": wall seconds, "event": name, ...}
//   log.jsonl       the log (log.h)
//   progress.json   committed work, rates (progress.h)
//   lock            held (file_lock.h) while a process works here
//
// A folder is held by one process at a time: a second open is kUnavailable and names the holder's pid. Opening removes what
// killed writes left in it and two levels below (base/file.h), but in no folder with a lock of its own. event() is safe
// from any thread. A RunFolder is neither copied nor moved once open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/result.h"

namespace aerie {

class RunFolder {
 public:
  // Makes the folder if needed, takes the lock, writes run.json and config.toml, sends the log there.
  static Result<std::unique_ptr<RunFolder>> open(const std::string& path, const std::vector<std::string>& argv,
                                                 const std::string& resolved_config,
                                                 const Clock& clock = real_clock());
  ~RunFolder();  // leaves state "interrupted" in run.json unless finish() was called

  const std::string& path() const;
  std::string file(const std::string& name) const { return path() + "/" + name; }

  // Appends to events.jsonl. A write that fails is the caller's to report: events are results.
  Status event(const std::string& name, const Fields& fields, const std::string& extra_json_members = "");
  // Replaces progress.json, as a whole for readers but without waiting for the disk.
  Status progress(const std::string& json);
  // Records how it ended: "done", "failed", "interrupted".
  Status finish(const std::string& state, const std::string& sentence);

  struct State;

 private:
  explicit RunFolder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Name and version of this program, compiler and libraries, as written into run.json and reports.
std::string version_text();

}  // namespace aerie
