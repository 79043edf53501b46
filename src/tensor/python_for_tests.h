// For tests only: runs a Python program against files of ours, where Python has the modules it needs.
//
// Uses $AERIE_PYTHON, or python3 from the path. One thread. Nothing here fails loudly: missing_python() says what is
// absent (for GTEST_SKIP), run_python() returns exit status and output.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace aerie {

struct PythonRun {
  int status = -1;
  std::string output;
};

inline PythonRun run_shell(const std::string& command) {
  PythonRun run;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return run;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) run.output.append(buffer, n);
  const int status = pclose(pipe);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

// Runs `script_path` with arguments that hold no single quotes; ended after 60 s.
inline PythonRun run_python(const std::string& script_path, const std::string& arguments) {
  const char* python = std::getenv("AERIE_PYTHON");
  return run_shell("timeout 60 '" + std::string(python ? python : "python3") + "' '" + script_path + "' " + arguments);
}

// Empty when `import <modules>` works, else the reason to skip.
inline std::string missing_python(const std::string& modules) {
  const char* python = std::getenv("AERIE_PYTHON");
  const auto run = run_shell("timeout 60 '" + std::string(python ? python : "python3") + "' -c 'import " + modules + "'");
  if (run.status == 0) return "";
  return "python3 cannot import " + modules + " (set AERIE_PYTHON to a Python that can)";
}

}  // namespace aerie
