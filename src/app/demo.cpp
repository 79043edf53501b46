#include <cstdlib>

#include "app/data.h"
#include "app/pipeline.h"

namespace aerie {

// Sized for two slow cores: about 130 tokens/s when answering, 150 when reading states, 150 a second and TTT pass when
// training; docs/performance.md has what was measured.
void apply_demo_defaults(Settings& settings) {
  settings.run.folder = "runs/demo";
  if (const char* model = std::getenv("AERIE_MODEL")) settings.target.model = model;
  settings.generate.prompts = shipped_file("prompts/train.jsonl");
  settings.target.context = 1024;
  settings.target.parallel = 16;
  settings.generate.limit = 320;
  settings.generate.max_tokens = 128;
#ifdef AERIE_HAVE_TRAIN
  settings.train.time_limit_s = 600;
  settings.train.lr = 5e-4;
#endif
#ifdef AERIE_HAVE_BENCH
  settings.bench.prompts = shipped_file("prompts/heldout.jsonl");
  settings.bench.count = 16;
  settings.bench.max_tokens = 96;
  settings.bench.draft_lengths = {1, 2, 4};
  settings.bench.context = 1024;
  settings.bench.time_limit_s = 150;
  settings.bench.copies = {"F32"};
#endif
}

}  // namespace aerie
