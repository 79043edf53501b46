#include "app/data.h"

#include <unistd.h>

#include <climits>
#include <vector>

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

Result<std::string> shipped_file(const std::string& name) {
  const std::string here = program_folder();
  // build/<preset>/aerie in a source tree, or bin/aerie of an installation.
  const std::vector<std::string> places = {here + "/../../data/" + name, here + "/../share/aerie/" + name};
  for (const std::string& place : places)
    if (real_file_system().exists(place)) return place;
  return not_found("the shipped file " + name + " is neither at " + places[0] + " nor at " + places[1] +
                   ": run the program from its source tree, or name files of your own");
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
