#include "app/data.h"

#include <unistd.h>

#include <climits>

#include "base/file.h"
#include "target/target.h"
#ifdef AERIE_HAVE_TRAIN
#include "train/train.h"
#endif

namespace aerie {
namespace {

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length <= 0 ? "." : folder_of(std::string(path, static_cast<size_t>(length)));
}

}  // namespace

std::string shipped_file(const std::string& name) {
  const std::string here = program_folder();
  const std::string in_tree = here + "/../../data/" + name, installed = here + "/../share/aerie/" + name;
  // Whichever can be seen; opening it says what is wrong with it.
  return real_file_system().info(installed).ok() && !real_file_system().info(in_tree).ok() ? installed : in_tree;
}

std::string libraries_text() {
  std::string text;
#ifdef AERIE_HAVE_TRAIN
  text += "LibTorch " + torch_version();
#else
  text += "no LibTorch";
#endif
  text += ", " + (llama_version_text().empty() ? "no llama.cpp" : "llama.cpp " + llama_version_text());
  return text;
}

}  // namespace aerie
