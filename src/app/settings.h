// All settings of the program: one struct a room, gathered in one place, and the Config that reads and explains them.
//
// Not copied and not moved: the Config points into it. Private to app.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "extract/extract.h"
#include "extract/generate.h"
#include "store/store.h"
#include "target/target.h"
#ifdef AERIE_HAVE_TRAIN
#include "train/train.h"
#endif
#ifdef AERIE_HAVE_BENCH
#include "bench/bench.h"
#endif

namespace aerie {

// Where things are. Empty paths lie inside the run folder, so that a pipeline needs one line.
struct RunSettings {
  std::string folder = "runs/aerie";
  std::string conversations;  // <folder>/conversations.jsonl
  std::string store;          // <folder>/store
  std::string checkpoint;     // <folder>/checkpoints/best/draft.safetensors
  std::string draft;          // <folder>/draft/draft.gguf

  void fields(FieldList& v);
  std::string conversations_path() const { return conversations.empty() ? folder + "/conversations.jsonl" : conversations; }
  std::string store_path() const { return store.empty() ? folder + "/store" : store; }
  std::string draft_path() const { return draft.empty() ? folder + "/draft/draft.gguf" : draft; }
};

struct ExportSettings {
  std::vector<std::string> flavors = {"gguf", "sglang", "vllm", "speculators"};
  std::string type = "BF16";       // of the matrices in Hugging Face folders
  std::string gguf_type = "F16";   // of the matrices in the GGUF file

  void fields(FieldList& v);
};

struct Settings {
  Settings();
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  RunSettings run;
  TargetConfig target;
  GenerateConfig generate;
  ExtractConfig extract;
  StoreConfig store;
#ifdef AERIE_HAVE_TRAIN
  TrainConfig train;
#endif
  ExportSettings exports;
#ifdef AERIE_HAVE_BENCH
  BenchConfig bench;
#endif
  Config config;

  std::string bench_prompts() const;  // empty without the bench room

  // The lines "room.key = value" of these rooms, without settings that change speed or amount only: what a stage's result
  // hangs on. And those that say how much is made.
  std::string lines_of(const std::vector<std::string>& rooms) const;
  std::string amount_lines_of(const std::vector<std::string>& rooms) const;

 private:
  std::string lines(const std::vector<std::string>& rooms, bool of_amounts) const;
};

}  // namespace aerie
