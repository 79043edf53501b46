// Facts of the machine a measurement was made on, read from /proc and /etc.
//
// Plain values, any thread, never fails: what cannot be read is absent. Reads small kernel files only, nothing that can
// block on a mount.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace aerie {

struct MachineFacts {
  std::optional<std::string> cpu_model;
  std::optional<int> core_count;               // logical processors that this process may use
  std::optional<uint64_t> memory_bytes;        // of the machine
  std::optional<uint64_t> memory_limit_bytes;  // of the control group, when lower
  std::vector<std::string> cpu_flags;          // of those that matter here: avx2, avx512f, avx512_vnni, amx_int8, ...
  std::optional<std::string> os;               // "Debian GNU/Linux 12 (bookworm)"
  std::optional<std::string> kernel;           // "6.1.0-18-amd64"
  std::optional<std::string> host;
  std::optional<double> load_1min;  // processes running or waiting, average of the last minute
};

// `root` is put in front of every path ("" = this machine).
MachineFacts read_machine(const std::string& root = "");

Fields machine_fields(const MachineFacts& machine);
// "AMD EPYC 7B13, 2 cores, 25 GB, avx2, Debian GNU/Linux 12 (bookworm)"
std::string machine_text(const MachineFacts& machine);

}  // namespace aerie
