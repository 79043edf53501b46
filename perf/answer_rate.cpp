// How fast a target answers here, by how many answers are written side by side:
//
//   perf/answer_rate --model T.gguf [--threads 1] [--parallel 1,4,8,16] [--prompt 64] [--answer 64] [--repeats 3] [--flash 1] [--kv f16]
//
// Each row asks `parallel` requests at once, of --prompt tokens, for --answer tokens each (the end token is as unlikely as the
// model makes it; answers that end early are counted as long as they are). The rate of taking in prompts comes from requests
// for one token. Numbers are tokens a CPU second (other programs disturb wall time), the median over repeats. One JSON object.
// Exit code 0, or 1 with the reason on stderr.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "target/target.h"

namespace {

using namespace aerie;

struct Options {
  TargetConfig target;
  std::vector<int> parallel = {1, 4, 8, 16};
  int prompt = 64, answer = 64, repeats = 3;
};

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool read_options(int argc, char** argv, Options& options) {
  options.target.threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const int number = std::atoi(argv[i + 1]);
    if (name == "--model") options.target.model = argv[i + 1];
    else if (name == "--threads") options.target.threads = number;
    else if (name == "--prompt") options.prompt = number;
    else if (name == "--answer") options.answer = number;
    else if (name == "--repeats") options.repeats = number;
    else if (name == "--flash") options.target.flash_attention = number != 0;
    else if (name == "--kv") options.target.kv_type = argv[i + 1];
    else if (name == "--parallel") {
      options.parallel.clear();
      for (std::string_view part : split(argv[i + 1], ',')) options.parallel.push_back(std::atoi(std::string(part).c_str()));
    } else return false;
  }
  options.target.context = options.prompt + options.answer + 8;
  return argc % 2 == 1 && !options.target.model.empty() && options.prompt > 0 && options.answer > 1 && options.repeats > 0;
}

struct Answered {
  double cpu_s = 0;
  double tokens = 0;
};

// Asks for so many answers of so many tokens; prompts differ, so that answers do.
Result<Answered> ask(Target& target, int count, int prompt, int tokens) {
  std::vector<GenerateRequest> requests;
  const int words = std::min(target.facts().vocab_size, 20000);
  for (int i = 0; i < count; ++i) {
    GenerateRequest request;
    for (int j = 0; j < prompt; ++j) request.prompt_ids.push_back(100 + (j * 211 + i * 37) % (words - 100));
    request.max_tokens = tokens;
    requests.push_back(std::move(request));
  }
  Answered answered;
  const double start = cpu_s();
  const auto count_tokens = [&](size_t, Result<Generated> generated) -> Status {
    TRY(const Generated done, std::move(generated));
    answered.tokens += static_cast<double>(done.ids.size());
    return ok_status();
  };
  CHECKED(target.generate(requests, count_tokens, {}));
  answered.cpu_s = cpu_s() - start;
  return answered;
}

Result<std::string> measure_one(const Options& options, int parallel) {
  TargetConfig config = options.target;
  config.parallel = parallel;
  TRY(const auto target, open_target(config));
  CHECKED(ask(*target, parallel, options.prompt, 2));  // warm
  std::vector<double> prompt_rate, answer_rate, lengths;
  for (int i = 0; i < options.repeats; ++i) {
    TRY(const Answered first, ask(*target, parallel, options.prompt, 1));
    TRY(const Answered whole, ask(*target, parallel, options.prompt, options.answer));
    prompt_rate.push_back(parallel * options.prompt / first.cpu_s);
    // The first token of each answer comes with its prompt.
    answer_rate.push_back((whole.tokens - parallel) / std::max(1e-9, whole.cpu_s - first.cpu_s));
    lengths.push_back(whole.tokens / parallel);
  }
  return JsonObject().add({"parallel", parallel}).add({"prompt_tokens_per_cpu_s", median(prompt_rate)})
      .add({"answer_tokens_per_cpu_s", median(answer_rate)}).add({"mean_answer", median(lengths)}).text();
}

Result<std::string> measure(const Options& options) {
  std::vector<std::string> rows;
  for (int parallel : options.parallel) {
    TRY(std::string row, measure_one(options, parallel));
    rows.push_back(std::move(row));
  }
  return JsonObject().add_all(Fields{{"what", "answer_rate"}, {"model", options.target.model}, {"threads", options.target.threads},
                                     {"prompt", options.prompt}, {"answer", options.answer},
                                     {"flash_attention", options.target.flash_attention}, {"kv_type", options.target.kv_type}})
      .add_json("rows", "[" + join(rows, ",") + "]").text();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr, "usage: answer_rate --model T.gguf [--threads 1] [--parallel 1,4,8,16] [--prompt 64] [--answer 64] [--repeats 3] [--flash 1] [--kv f16]\n");
    return 2;
  }
  const auto report = measure(options);
  if (!report) {
    std::fprintf(stderr, "answer_rate: %s\n", report.error().what.c_str());
    return exit_code(report.error());
  }
  std::printf("%s\n", report->c_str());
  return 0;
}
