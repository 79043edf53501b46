// A whole prompts file, as text and as JSONL, and the same bytes as a conversations file read from every cursor.
#include <algorithm>
#include <cstdlib>

#include "memory_files.h"
#include "samples/samples.h"

namespace {

using namespace aerie;

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
  MemoryFiles fs(std::as_bytes(std::span(data, size)));
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
