#include "bench/machine.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace aerie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(Machine, IsReadFromProcAndEtc) {
  const std::string root = testing::TempDir() + "/machine_a";
  put(root + "/proc/cpuinfo",
      "processor\t: 0\nvendor_id\t: Test\nmodel name\t: Imaginary: CPU @ 2.00GHz\nflags\t\t: fpu avx2 fma avx2x "
      "avx512f\n\n"
      "processor\t: 1\nmodel name\t: Another\n");
  put(root + "/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
  put(root + "/sys/fs/cgroup/memory.max", "1048576\n");
  put(root + "/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  put(root + "/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  put(root + "/proc/sys/kernel/hostname", "box\n");
  put(root + "/proc/loadavg", "0.52 0.40 0.30 1/234 5678\n");
  const MachineFacts machine = read_machine(root);
  EXPECT_EQ(machine.cpu_model, "Imaginary: CPU @ 2.00GHz");
  EXPECT_THAT(machine.cpu_flags, ElementsAre("avx2", "fma", "avx512f"));
  EXPECT_EQ(machine.memory_bytes, 16384u * 1024);
  EXPECT_EQ(machine.memory_limit_bytes, 1048576u);
  EXPECT_EQ(machine.os, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(machine.kernel, "6.1.0-18-amd64");
  EXPECT_EQ(machine.host, "box");
  EXPECT_EQ(machine.load_1min, 0.52);
  EXPECT_THAT(machine_text(machine), HasSubstr("Imaginary: CPU @ 2.00GHz, "));
  EXPECT_THAT(machine_text(machine), HasSubstr("avx2 fma avx512f, Debian"));
}

TEST(Machine, LeavesOutWhatCannotBeRead) {
  const std::string root = testing::TempDir() + "/machine_b";
  put(root + "/proc/meminfo", "MemTotal: lots\n");
  put(root + "/proc/loadavg", "\n");
  put(root + "/sys/fs/cgroup/memory.max", "max\n");
  const MachineFacts machine = read_machine(root);
  EXPECT_FALSE(machine.cpu_model.has_value());
  EXPECT_FALSE(machine.memory_bytes.has_value());
  EXPECT_FALSE(machine.memory_limit_bytes.has_value());
  EXPECT_FALSE(machine.load_1min.has_value());
  for (const Field& field : machine_fields(machine)) EXPECT_EQ(field.name, "core_count");
}

TEST(Machine, KnowsThisOne) {
  const MachineFacts machine = read_machine();
  EXPECT_GE(machine.core_count.value_or(0), 1);
  EXPECT_GT(machine.memory_bytes.value_or(0), 0u);
}

}  // namespace
}  // namespace aerie
