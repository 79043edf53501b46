// Runs a fuzzer over every file of the folders and files named on the command line: the corpus as a test, under any
// compiler. Ends with 0 when none crashed, 1 when there was nothing to run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace files = std::filesystem;

std::vector<files::path> inputs_of(const files::path& path) {
  std::error_code error;
  if (files::is_regular_file(path, error)) return {path};
  std::vector<files::path> inputs;
  for (files::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (entry->is_regular_file()) inputs.push_back(entry->path());
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const files::path& input : inputs_of(argv[i])) {
      std::ifstream in(input, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      std::printf("%s\n", input.c_str());  // the last name printed is the one that crashed
      std::fflush(stdout);
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  if (count == 0)
    std::fprintf(stderr, "there is no input to run: a fuzzer needs at least one seed in fuzz/corpus/<name>\n");
  return count == 0 ? 1 : 0;
}
