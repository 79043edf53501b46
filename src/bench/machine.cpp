#include "bench/machine.h"

#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/text.h"

namespace aerie {
namespace {

constexpr const char* kFlagsThatMatter[] = {"avx2",     "fma",      "f16c",     "avx512f", "avx512_vnni", "avx512_bf16",
                                            "avx_vnni", "amx_int8", "amx_bf16", "asimd",   "sve",         "i8mm"};

std::optional<std::string> small_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  // /proc/cpuinfo of a machine with hundreds of cores is some hundred kB; the first processor is enough.
  std::string text(64 * 1024, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// The rest of the first line "key<spaces>separator value".
std::optional<std::string> value_of(const std::string& text, std::string_view key, char separator) {
  for (std::string_view line : split(text, '\n')) {
    const size_t at = line.find(separator);
    if (at == std::string_view::npos || trim(line.substr(0, at)) != key) continue;
    return std::string(trim(line.substr(at + 1)));
  }
  return std::nullopt;
}

std::optional<uint64_t> number(std::string_view text) {
  const std::string digits(trim(text));
  char* end = nullptr;
  const unsigned long long value = std::strtoull(digits.c_str(), &end, 10);
  if (digits.empty() || end == digits.c_str() || digits[0] == '-') return std::nullopt;
  return value;
}

void read_cpu(const std::string& root, MachineFacts& facts) {
  const auto cpuinfo = small_file(root + "/proc/cpuinfo");
  if (!cpuinfo) return;
  facts.cpu_model = value_of(*cpuinfo, "model name", ':');
  auto flags = value_of(*cpuinfo, "flags", ':');
  if (!flags) flags = value_of(*cpuinfo, "Features", ':');
  if (!flags) return;
  const std::vector<std::string_view> all = split(*flags, ' ');
  for (const char* wanted : kFlagsThatMatter) {
    for (std::string_view flag : all) {
      if (flag == wanted) facts.cpu_flags.emplace_back(wanted);
    }
  }
}

void read_memory(const std::string& root, MachineFacts& facts) {
  if (const auto meminfo = small_file(root + "/proc/meminfo")) {
    if (const auto total = value_of(*meminfo, "MemTotal", ':')) {
      if (const auto kib = number(*total)) facts.memory_bytes = *kib * 1024;
    }
  }
  if (const auto limit = small_file(root + "/sys/fs/cgroup/memory.max")) {
    const auto bytes = number(*limit);  // "max" when there is none
    if (bytes && facts.memory_bytes && *bytes < *facts.memory_bytes) facts.memory_limit_bytes = bytes;
  }
}

void read_system(const std::string& root, MachineFacts& facts) {
  if (const auto release = small_file(root + "/etc/os-release")) {
    auto name = value_of(*release, "PRETTY_NAME", '=');
    if (name && name->size() >= 2 && name->front() == '"' && name->back() == '"')
      *name = name->substr(1, name->size() - 2);
    facts.os = name;
  }
  if (const auto kernel = small_file(root + "/proc/sys/kernel/osrelease")) facts.kernel = std::string(trim(*kernel));
  if (const auto host = small_file(root + "/proc/sys/kernel/hostname")) facts.host = std::string(trim(*host));
  if (const auto load = small_file(root + "/proc/loadavg")) {
    char* end = nullptr;
    const double value = std::strtod(load->c_str(), &end);
    if (end != load->c_str()) facts.load_1min = value;
  }
}

}  // namespace

MachineFacts read_machine(const std::string& root) {
  MachineFacts facts;
  read_cpu(root, facts);
  read_memory(root, facts);
  read_system(root, facts);
  // What this process may run on: a container or a job scheduler often gives less than the machine has.
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) facts.core_count = CPU_COUNT(&allowed);
  return facts;
}

Fields machine_fields(const MachineFacts& machine) {
  Fields fields;
  if (machine.cpu_model) fields.emplace_back("cpu_model", *machine.cpu_model);
  if (machine.core_count) fields.emplace_back("core_count", *machine.core_count);
  if (machine.memory_bytes) fields.emplace_back("memory_bytes", *machine.memory_bytes);
  if (machine.memory_limit_bytes) fields.emplace_back("memory_limit_bytes", *machine.memory_limit_bytes);
  if (!machine.cpu_flags.empty()) fields.emplace_back("cpu_flags", join(machine.cpu_flags, " "));
  if (machine.os) fields.emplace_back("os", *machine.os);
  if (machine.kernel) fields.emplace_back("kernel", *machine.kernel);
  if (machine.host) fields.emplace_back("host", *machine.host);
  if (machine.load_1min) fields.emplace_back("load_1min", *machine.load_1min);
  return fields;
}

std::string machine_text(const MachineFacts& machine) {
  std::vector<std::string> parts;
  if (machine.cpu_model) parts.push_back(*machine.cpu_model);
  if (machine.core_count) {
    parts.push_back(std::to_string(*machine.core_count) + (*machine.core_count == 1 ? " core" : " cores"));
  }
  if (machine.memory_bytes) parts.push_back(bytes_text(*machine.memory_bytes));
  if (machine.memory_limit_bytes) parts.push_back("limited to " + bytes_text(*machine.memory_limit_bytes));
  if (!machine.cpu_flags.empty()) parts.push_back(join(machine.cpu_flags, " "));
  if (machine.os) parts.push_back(*machine.os);
  return parts.empty() ? "unknown machine" : join(parts, ", ");
}

}  // namespace aerie
