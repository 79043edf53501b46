// What speculation costs and gives on this machine, for one target and one draft (both GGUF):
//
//   perf_decode_rate --target T.gguf --draft D.gguf [--threads N] [--rows 8] [--repeats 9] [--context 256]
//
// Prints one JSON object: the cost of one draft step and of verifying k tokens, each relative to one plain decode step,
// and the acceptance length from which speculation pays for each chain length. The ratios are what travels between
// machines. Exit code 0, or 1 with the reason on stderr.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "draft/decoder.h"

namespace {

using namespace aerie;

struct Options {
  DecoderConfig decoder;
  int rows = 8;
  int repeats = 9;
  int context_rows = 256;
};

bool read_options(int argc, char** argv, Options& options) {
  options.decoder.context = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--target")
      options.decoder.target = value;
    else if (name == "--draft")
      options.decoder.draft = value;
    else if (name == "--threads")
      options.decoder.threads = std::atoi(value);
    else if (name == "--rows")
      options.rows = std::atoi(value);
    else if (name == "--repeats")
      options.repeats = std::atoi(value);
    else if (name == "--context")
      options.context_rows = std::atoi(value);
    else
      return false;
  }
  // Measuring grows the cache by a row a round; a chain needs some room behind.
  options.decoder.context = options.context_rows + options.rows * (options.repeats + 1) + 64;
  return argc % 2 == 1 && !options.decoder.target.empty() && !options.decoder.draft.empty();
}

int fail(const Error& error) {
  std::fprintf(stderr, "perf_decode_rate: %s\n", error.what.c_str());
  return exit_code(error);
}

std::vector<double> over(const std::vector<double>& values, double unit) {
  std::vector<double> ratios;
  for (double v : values) ratios.push_back(v / unit);
  return ratios;
}

// Tokens a round must yield, on average, for a chain of n tokens to be as fast as plain decoding:
// (n draft steps + verify n + 1 rows + take in n + 1 rows) / plain step.
std::vector<double> break_even(const StepCosts& costs) {
  std::vector<double> lengths;
  for (size_t n = 1; n < costs.verify_s.size(); ++n) {
    const double round_s = static_cast<double>(n) * costs.draft_step_s + costs.verify_s[n] + costs.refresh_s[n];
    lengths.push_back(round_s / costs.plain_step_s);
  }
  return lengths;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: perf_decode_rate --target T.gguf --draft D.gguf [--threads N] [--rows 8] [--repeats 9] "
                 "[--context 256]\n");
    return 2;
  }
  auto decoder = SpeculativeDecoder::open(options.decoder);
  if (!decoder) return fail(decoder.error());
  // Which tokens fill the cache does not matter to the time; they only must be ordinary ones.
  std::vector<int32_t> prompt;
  for (int i = 0; i < options.context_rows; ++i) prompt.push_back(100 + i % 200);
  auto costs = (*decoder)->measure_costs(prompt, options.rows, options.repeats);
  if (!costs) return fail(costs.error());

  JsonObject json;
  json.add_all(Fields{{"what", "decode_rate"},
                      {"setup", (*decoder)->description()},
                      {"context_rows", costs->context_rows},
                      {"plain_step_ms", costs->plain_step_s * 1e3},
                      {"draft_step_ms", costs->draft_step_s * 1e3},
                      {"draft_step_over_plain", costs->draft_step_s / costs->plain_step_s}});
  json.add_json("verify_over_plain", json_array(over(costs->verify_s, costs->plain_step_s)));
  json.add_json("refresh_over_plain", json_array(over(costs->refresh_s, costs->plain_step_s)));
  json.add_json("break_even_acceptance_length", json_array(break_even(*costs)));
  std::printf("%s\n", json.text().c_str());
  return 0;
}
