// How much of llama.cpp's own prefill rate is left when hidden states are captured, on the same tokens:
//
//   perf/extract_rate --model T.gguf [--threads 1] [--length 512] [--batch 512] [--pairs 7] [--boundaries 2,15,27]
//
// Plain: llama_decode over the sequence in passes of --batch, one row of logits, as an engine does that only answers.
// Capture: Aerie's capture of the boundaries and the final state, handed over as floats. Runs alternate (which of a pair goes
// first, too), both ways on one loaded model. Prints one JSON object; `ratio` is plain time over capture time, by CPU seconds
// (other programs disturb wall time; with one thread both mean the same on an idle machine). Goal: >= 0.95.
// Exit code 0, or 1 with the reason on stderr.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "llama.h"
#include "target/llama/capture.h"
#include "target/llama/facts.h"
#include "target/llama/library.h"
#include "target/target.h"
#include "tensor/gguf.h"

namespace {

using namespace aerie;

struct Options {
  TargetConfig target;
  int length = 512;
  int pairs = 7;
  std::vector<int> boundaries;
};

struct Cost {
  double wall_s = 0, cpu_s = 0;
};

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
Result<Cost> timed(const Work& work) {
  const double wall = real_clock().monotonic_s(), cpu = cpu_s();
  CHECKED(work());
  return Cost{real_clock().monotonic_s() - wall, cpu_s() - cpu};
}

double at(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

std::string spread(const std::vector<double>& values) {
  return JsonObject().add({"median", at(values, 0.5)}).add({"low", at(values, 0.1)}).add({"high", at(values, 0.9)}).text();
}

bool read_options(int argc, char** argv, Options& options) {
  options.target.threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--model") options.target.model = argv[i + 1];
    else if (name == "--threads") options.target.threads = std::atoi(argv[i + 1]);
    else if (name == "--length") options.length = std::atoi(argv[i + 1]);
    else if (name == "--batch") options.target.batch = std::atoi(argv[i + 1]);
    else if (name == "--pairs") options.pairs = std::atoi(argv[i + 1]);
    else if (name == "--boundaries")
      for (std::string_view part : split(argv[i + 1], ',')) options.boundaries.push_back(std::atoi(std::string(part).c_str()));
    else return false;
  }
  options.target.context = options.length;
  return argc % 2 == 1 && !options.target.model.empty() && options.length > 0 && options.pairs > 0 && options.target.batch > 0;
}

Status prefill(llama_context& context, llama::Batch& rows, const std::vector<int32_t>& ids, int batch) {
  llama_memory_clear(llama_get_memory(&context), true);
  for (size_t begin = 0; begin < ids.size(); begin += static_cast<size_t>(batch)) {
    const size_t end = std::min(ids.size(), begin + static_cast<size_t>(batch));
    rows.clear();
    for (size_t i = begin; i < end; ++i) rows.add(ids[i], static_cast<int>(i), 0, i + 1 == ids.size());
    CHECKED(rows.decode(context, {}));
  }
  return ok_status();
}

Result<std::string> measure(Options options) {
  TRY(const GgufFile gguf, GgufFile::open(options.target.model));
  TRY(const TargetFacts facts, llama::read_facts(gguf, options.target.model));
  if (options.boundaries.empty()) {
    TRY(options.boundaries, default_boundaries(facts.layer_count));
  }
  TRY(const llama::ModelPtr model, llama::open_model(options.target.model));
  llama::ContextOptions plain;
  plain.tokens = options.length;
  plain.batch = options.target.batch;
  plain.threads = options.target.threads;
  TRY(const llama::ContextPtr context, llama::open_context(*model, plain, options.target.model));
  TRY(const auto capturer, llama::Capturer::open(*model, facts, options.target));
  llama::Batch rows(options.target.batch);
  std::vector<int32_t> ids;
  for (int i = 0; i < options.length; ++i) ids.push_back((i * 7919 + 104729) % facts.vocab_size);  // which tokens does not matter to time

  const auto run_plain = [&] { return prefill(*context, rows, ids, options.target.batch); };
  const auto run_capture = [&]() -> Status {
    TRY(const Captured captured, capturer->run(ids, options.boundaries, {}));
    return captured.row_count == options.length ? ok_status() : Status(internal("rows are missing"));
  };
  CHECKED(run_plain());  // both warmed up: pages of the weights, buffers of the graphs
  CHECKED(run_capture());
  std::vector<double> ratio, wall_ratio, plain_rate, capture_rate;
  for (int pair = 0; pair < options.pairs; ++pair) {
    Cost without, with;
    for (int half = 0; half < 2; ++half) {
      if ((half == 0) == (pair % 2 == 0)) {
        TRY(without, timed(run_plain));
      } else {
        TRY(with, timed(run_capture));
      }
    }
    ratio.push_back(without.cpu_s / with.cpu_s);
    wall_ratio.push_back(without.wall_s / with.wall_s);
    plain_rate.push_back(options.length / without.cpu_s);
    capture_rate.push_back(options.length / with.cpu_s);
  }
  JsonObject json;
  json.add_all(Fields{{"what", "extract_rate"}, {"model", facts.name}, {"weights", facts.weight_type}, {"length", options.length},
                      {"batch", options.target.batch}, {"threads", options.target.threads}, {"pairs", options.pairs}});
  json.add_json("ratio", spread(ratio)).add_json("ratio_by_wall_time", spread(wall_ratio));
  json.add_json("plain_tokens_per_cpu_s", spread(plain_rate)).add_json("capture_tokens_per_cpu_s", spread(capture_rate));
  return json.text();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr, "usage: extract_rate --model T.gguf [--threads 1] [--length 512] [--batch 512] [--pairs 7] [--boundaries 2,15,27]\n");
    return 2;
  }
  const auto report = measure(options);
  if (!report) {
    std::fprintf(stderr, "extract_rate: %s\n", report.error().what.c_str());
    return exit_code(report.error());
  }
  std::printf("%s\n", report->c_str());
  return 0;
}
