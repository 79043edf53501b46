// Child processes that cannot outstay their welcome: every run has a deadline, a stop token and a cap on what it may
// say.
//
// run_child() blocks its caller until the child and the pipes to it are done with. The child leads its own process
// group; when it ends, is stopped, or is late, the whole group goes: TERM first, KILL after the grace. It is waited for
// through a pidfd, so a pid that the kernel gave to another process meanwhile is never signalled. No file of ours is
// open in the child but its three standard streams, and signals stand at their defaults there. Safe from any thread.
//
// How the child ended is a value, not a failure: a non-zero exit, a signal, a passed deadline. run_child() itself fails
// with kNotFound (no such program), kInvalid (not executable, no such folder), kCancelled (asked to stop; the child is
// gone) and kTimeout (KILL did not end the child: it hangs in the kernel, and is left to it).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"

namespace aerie {

struct ChildOptions {
  std::vector<std::string> argv;  // argv[0] is looked for in PATH unless it has a slash
  // Variables on top of this process's own; nullopt takes one away.
  std::map<std::string, std::optional<std::string>> environment;
  std::string folder;      // working folder; empty = ours
  std::string stdin_text;  // empty = /dev/null
  double timeout_s = 60;
  double grace_s = 2;                 // between TERM and KILL; 0 = KILL at once
  size_t output_cap_bytes = 1 << 20;  // for each of stdout and stderr; the rest is read and dropped
  std::stop_token stop;
};

struct ChildResult {
  int exit_status = -1;  // meant when signal is 0
  int signal = 0;        // that ended it, 0 = it exited
  std::string out, err;
  bool cut = false;        // more was said than the cap allows, or someone outside the group still holds the pipes
  bool timed_out = false;  // the deadline passed, so it was ended
  double wall_s = 0;

  bool ok() const { return signal == 0 && exit_status == 0 && !timed_out; }
  // "exit status 1", "killed by signal 9 (Killed)", "not done after 60 s, so it was ended".
  std::string how_it_ended() const;
};

Result<ChildResult> run_child(const ChildOptions& options);

}  // namespace aerie
