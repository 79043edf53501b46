// A whole prompts file, as text and as JSONL, and the same bytes as a conversations file read from every cursor.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "samples/samples.h"

namespace {

using namespace aerie;

class MemoryFile : public ReadableFile {
 public:
  MemoryFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}
  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return bytes_.size(); }
  Status read_at(uint64_t offset, std::span<std::byte> into) override {
    if (offset > bytes_.size() || into.size() > bytes_.size() - offset) std::abort();  // reads beyond the end are our fault
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return ok_status();
  }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

// One file that answers to every name; nothing else works.
class OneFile : public FileSystem {
 public:
  explicit OneFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return std::unique_ptr<ReadableFile>(std::make_unique<MemoryFile>(path, bytes_));
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string&, Create) override { return internal("read-only"); }
  Result<FileInfo> info(const std::string&) override { return FileInfo{bytes_.size(), false, 0}; }
  Result<std::vector<std::string>> list(const std::string&) override { return internal("no folders"); }
  Status make_folders(const std::string&) override { return internal("read-only"); }
  Status link(const std::string&, const std::string&) override { return internal("read-only"); }
  Status rename(const std::string&, const std::string&) override { return internal("read-only"); }
  Status remove(const std::string&) override { return internal("read-only"); }
  Status sync_folder(const std::string&) override { return internal("read-only"); }
  Result<SpaceInfo> space(const std::string&) override { return internal("no disk"); }

 private:
  std::span<const std::byte> bytes_;
};

void check_prompts(FileSystem& fs, const std::string& path) {
  const auto prompts = load_prompts(fs, path);
  if (!prompts) {
    if (prompts.error().code != Code::kInvalid || prompts.error().what.find(path) != 0) std::abort();
    return;
  }
  for (const Prompt& prompt : *prompts)
    if (prompt.id.empty() || prompt.messages.empty() || prompt.messages.back().role == "assistant") std::abort();
}

// How many lines are left from a cursor on; ends for every input.
int64_t count_from(FileSystem& fs, Cursor from) {
  auto reader = ConversationReader::open(fs, "c.jsonl", from);
  if (!reader) std::abort();
  for (int64_t count = 0;; ++count) {
    const auto next = reader->next();
    if (next && !*next) return count;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OneFile fs(std::as_bytes(std::span(data, size)));
  check_prompts(fs, "p.jsonl");
  check_prompts(fs, "p.txt");
  const auto total = count_samples(fs, "c.jsonl");
  if (!total || *total != count_from(fs, {})) std::abort();
  auto reader = ConversationReader::open(fs, "c.jsonl");
  if (!reader) std::abort();
  for (int64_t done = 0; done < std::min<int64_t>(*total, 8); ++done) {
    (void)reader->next();
    if (count_from(fs, reader->cursor()) != *total - done - 1) std::abort();
  }
  return 0;
}
