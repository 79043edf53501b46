#include "app/settings.h"

#include <algorithm>

#include "base/text.h"

namespace aerie {
namespace {

// Settings that may change between attempts at the same work: they decide how fast, how often or where, never what.
const std::vector<std::string>& speed_only() {
  static const std::vector<std::string> names = {
      "target.threads",     "target.parallel",         "target.batch", "store.shard_mb", "store.seal_after_s",
      "train.threads",      "train.checkpoint_every",  "train.device", "bench.threads",  "generate.window_kb",
      "extract.queue_mb",   "extract.patience_s",      "train.checkpoint_every_s",
  };
  return names;
}

// Settings that say only how much is made: what was made under another value is part of what this one makes.
const std::vector<std::string>& amounts() {
  static const std::vector<std::string> names = {"generate.limit", "generate.time_limit_s"};
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void RunSettings::fields(FieldList& v) {
  v("folder", folder, "run folder: settings, events, progress, results");
  v("conversations", conversations, "conversations, JSONL; empty = in the run folder");
  v("store", store, "store of hidden states; empty = in the run folder");
  v("checkpoint", checkpoint, "draft.safetensors to export; empty = the best of the run");
  v("draft", draft, "the draft's GGUF file for bench; empty = the run's export");
}

void ExportSettings::fields(FieldList& v) {
  v("flavors", flavors, "what to write: gguf (llama.cpp), sglang, vllm, speculators");
  v("type", type, "how Hugging Face folders hold the matrices").one_of({"BF16", "F16", "F32"});
  v("gguf_type", gguf_type, "how the GGUF file holds the matrices").one_of({"F16", "F32", "BF16", "Q8_0"});
}

Settings::Settings() {
  config.add("run", run);
  config.add("target", target);
  config.add("generate", generate);
  config.add("extract", extract);
  config.add("store", store);
#ifdef AERIE_HAVE_TRAIN
  config.add("train", train);
#endif
  config.add("export", exports);
#ifdef AERIE_HAVE_BENCH
  config.add("bench", bench);
#endif
}

std::string Settings::bench_prompts() const {
#ifdef AERIE_HAVE_BENCH
  return bench.prompts;
#else
  return "";
#endif
}

std::string Settings::lines_of(const std::vector<std::string>& rooms) const { return lines(rooms, false); }

std::string Settings::amount_lines_of(const std::vector<std::string>& rooms) const { return lines(rooms, true); }

std::string Settings::lines(const std::vector<std::string>& rooms, bool of_amounts) const {
  const std::string resolved = config.resolved_toml();
  std::string room, lines;
  for (std::string_view line : split(resolved, '\n')) {
    line = trim(line);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      room = std::string(trim(line.substr(1, line.find(']') - 1)));
      continue;
    }
    const size_t at = line.find('=');
    if (at == std::string_view::npos || !contains(rooms, room)) continue;
    const std::string key = room + "." + std::string(trim(line.substr(0, at)));
    if (contains(speed_only(), key) || contains(amounts(), key) != of_amounts) continue;
    lines += key + " = " + std::string(trim(line.substr(at + 1))) + "\n";
  }
  return lines;
}

}  // namespace aerie
