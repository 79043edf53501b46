// Feeds any bytes to the three draft loaders. The first byte chooses: 'a' a checkpoint (draft.safetensors), 'g' a GGUF,
// 'h' a Hugging Face folder: "<length of config.json in decimal>\n", config.json, model.safetensors.
// What a loader accepts is a whole draft: written as a checkpoint it must come back the same. The room needs LibTorch,
// which the preset fuzz leaves out (-DAERIE_TORCH=ON -DTORCH_ROOT=... brings it in); builds with it replay the corpus.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

#include "draft/load.h"

namespace {

using namespace aerie;

// Loaders take paths. One folder a process, removed at its end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "aerie_fuzz_draft_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    std::filesystem::create_directory(path_ + "/hf");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string write(const char* name, std::string_view content) const {
    const std::string path = path_ + "/" + name;
    if (!replace_file(real_file_system(), path, content)) std::abort();
    return path;
  }
  std::string path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_folder(const Folder& folder, std::string_view input) {
  size_t length = 0;
  const auto [end, error] = std::from_chars(input.data(), input.data() + input.size(), length);
  input.remove_prefix(static_cast<size_t>(end - input.data()));
  if (!input.empty()) input.remove_prefix(1);
  folder.write("hf/config.json", input.substr(0, length));
  folder.write("hf/model.safetensors", input.substr(std::min(length, input.size())));
}

void check(const Folder& folder, const Result<LoadedDraft>& loaded) {
  if (!loaded) {
    if (loaded.error().code == Code::kInternal) std::abort();  // bytes are never our defect
    return;
  }
  const Checkpoint& draft = loaded->checkpoint;
  if (draft.tensors.size() != expected_tensors(draft.shape).size()) std::abort();
  const std::string path = folder.path("again.safetensors");
  if (!write_checkpoint(real_file_system(), path, draft)) std::abort();
  const auto again = read_checkpoint(path);
  if (!again || again->shape != draft.shape || again->boundaries != draft.boundaries) std::abort();
  for (const Tensor& tensor : draft.tensors) {
    const Tensor* same = again->find(tensor.name);
    if (same == nullptr || same->shape != tensor.shape || same->bytes != tensor.bytes) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  FileSystem& fs = real_file_system();
  switch (data[0]) {
    case 'a': check(folder, load_draft(fs, folder.write("draft.safetensors", input))); break;
    case 'g': check(folder, load_draft(fs, folder.write("draft.gguf", input))); break;
    case 'h':
      write_folder(folder, input);
      check(folder, load_draft(fs, folder.path("hf"), 8));
      break;
    default: break;
  }
  return 0;
}
