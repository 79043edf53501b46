#include <cstdlib>

#include "app/data.h"
#include "app/pipeline.h"

namespace aerie {

// Sized for two cores. Data is what the draft lacks first, so most of the time goes into answers and their states; training
// has a time of its own, and looks as far ahead as bench drafts.
void apply_demo_defaults(Settings& settings) {
  settings.run.folder = "runs/demo";
  if (const char* model = std::getenv("AERIE_MODEL")) settings.target.model = model;
  settings.generate.prompts = shipped_file("prompts/train.jsonl");
  settings.target.context = 1024;
  settings.target.unpack = "F16";  // the small model fits in memory whole, and computes faster so (docs/performance.md)
  settings.target.parallel = 64;
  settings.generate.max_tokens = 128;
  settings.generate.time_limit_s = 480;
#ifdef AERIE_HAVE_TRAIN
  settings.train.ttt_steps = 4;
  settings.train.freeze_head = true;  // costs no acceptance on so few answers, and saves time (docs/training.md)
  settings.train.batch_tokens = 1024;
  settings.train.lr = 6e-4;
  settings.train.warmup_share = 0.04;
  settings.train.time_limit_s = 660;
#endif
#ifdef AERIE_HAVE_BENCH
  settings.bench.prompts = shipped_file("prompts/heldout.jsonl");
  settings.bench.count = 16;
  settings.bench.max_tokens = 96;
  settings.bench.draft_lengths = {1, 2, 4};
  settings.bench.context = 1024;
  settings.bench.time_limit_s = 120;
  settings.bench.copies = {"F32"};
#endif
}

}  // namespace aerie
