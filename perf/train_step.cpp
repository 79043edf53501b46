// Time and peak memory of one training step (forward, backward, clipping, AdamW) of a draft for a SmolLM2-135M target:
// H 576, I 1536, 9 query and 3 key heads of size 64, V 49152. Each line is measured in a process of its own, so that
// the peak belongs to it alone. Random weights and states: the cost does not depend on their values.
//
//   train_step [--vocab 8192] [--ttt 7] [--lengths 512,1024,2048] [--prompt-share 0.3] [--steps 3] [--threads 0]
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "train/ttt.h"

namespace {

using namespace aerie;

struct Settings {
  int vocab = 8192, ttt = 7, steps = 3, threads = 0;
  double prompt_share = 0.3;
  std::vector<int> lengths = {512, 1024, 2048};
  int one = 0;  // measure this length here and now
};

constexpr int kHidden = 576, kVocab = 49152;
constexpr unsigned kSecondsALine = 900;

std::vector<float> normals(Random& random, size_t count, double scale) {
  std::vector<float> values(count);
  // Sums of bits are normal enough here and forty times as fast as exact normals.
  for (float& v : values) v = static_cast<float>((random.unit() + random.unit() + random.unit() - 1.5) * 2 * scale);
  return values;
}

Checkpoint draft_of(const Settings& settings, Random& random) {
  Checkpoint c;
  c.shape = {.hidden_size = kHidden,
             .target_hidden_size = kHidden,
             .intermediate_size = 1536,
             .head_count = 9,
             .kv_head_count = 3,
             .head_size = 64,
             .vocab_size = kVocab,
             .draft_vocab_size = settings.vocab,
             .context_length = 8192,
             .rms_norm_eps = 1e-5,
             .rope_theta = 100000};
  for (const auto& [name, shape] : expected_tensors(c.shape)) {
    const auto count = static_cast<size_t>(*count_of(shape));
    if (name == "d2t") {
      c.tensors.push_back(tensor_i64(name, shape, std::vector<int64_t>(count, 0)));
    } else if (shape.size() == 1) {
      c.tensors.push_back(tensor_f32(name, shape, std::vector<float>(count, 1.0f)));
    } else {
      c.tensors.push_back(tensor_f32(name, shape, normals(random, count, 0.02)));
    }
  }
  return c;
}

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int measure(const Settings& settings) {
  alarm(kSecondsALine);
  Random random(1);
  auto head = std::make_shared<StoredHead>();
  head->norm.assign(kHidden, 1.0f);
  head->lm_head = normals(random, size_t{kVocab} * kHidden, 0.02);
  TttOptions options;
  options.steps = settings.ttt;
  options.threads = settings.threads;
  auto model = TttModel::create(draft_of(settings, random), head, options);
  if (!model) {
    fmt::print(stderr, "train_step: {}\n", model.error().what);
    return 1;
  }
  const auto length = static_cast<size_t>(settings.one);
  std::vector<int32_t> ids(length);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(kVocab));
  std::vector<uint8_t> mask(length, 1);
  std::fill_n(mask.begin(), static_cast<size_t>(settings.prompt_share * static_cast<double>(length)), uint8_t{0});
  const std::vector<float> aux = normals(random, length * 3 * kHidden, 1), last = normals(random, length * kHidden, 1);
  const TttSequence sequence{ids, mask, aux, last, {}};

  double best_wall = 1e9, best_cpu = 1e9;
  for (int step = 0; step <= settings.steps; ++step) {  // the first one warms up
    const double wall = real_clock().monotonic_s(), cpu = cpu_s();
    auto outputs = (*model)->run({&sequence, 1}, {.gradients = true});
    auto norm = outputs ? (*model)->update({.lr = 1e-4, .clip_norm = 0.5}, step + 1)
                        : Result<double>(std::move(outputs).error());
    if (!norm) {
      fmt::print(stderr, "train_step: {}\n", norm.error().what);
      return 1;
    }
    if (step == 0) continue;
    best_wall = std::min(best_wall, real_clock().monotonic_s() - wall);
    best_cpu = std::min(best_cpu, cpu_s() - cpu);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto supervised = static_cast<double>(std::count(mask.begin(), mask.end(), 1));
  fmt::print("{:6} {:7} {:4} {:11.0f} {:9.2f} {:9.2f} {:10.0f} {:10.2f}\n", settings.one, settings.vocab, settings.ttt,
             supervised, best_wall, best_cpu, static_cast<double>(length) / best_wall,
             static_cast<double>(usage.ru_maxrss) / (1 << 20));
  return 0;
}

bool parse(int argc, char** argv, Settings& s) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--vocab")
      s.vocab = std::atoi(value.c_str());
    else if (name == "--ttt")
      s.ttt = std::atoi(value.c_str());
    else if (name == "--steps")
      s.steps = std::atoi(value.c_str());
    else if (name == "--threads")
      s.threads = std::atoi(value.c_str());
    else if (name == "--prompt-share")
      s.prompt_share = std::atof(value.c_str());
    else if (name == "--one")
      s.one = std::atoi(value.c_str());
    else if (name == "--lengths") {
      s.lengths.clear();
      for (const auto part : split(value, ',')) s.lengths.push_back(std::atoi(std::string(part).c_str()));
    } else
      return false;
  }
  return argc % 2 == 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    fmt::print(
        stderr,
        "use: train_step [--vocab n] [--ttt n] [--lengths a,b,c] [--prompt-share x] [--steps n] [--threads n]\n");
    return 2;
  }
  if (settings.one > 0) return measure(settings);
  fmt::print("{:>6} {:>7} {:>4} {:>11} {:>9} {:>9} {:>10} {:>10}\n", "L", "Vd", "TTT", "supervised", "wall s", "CPU s",
             "tokens/s", "peak GiB");
  for (const int length : settings.lengths) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      std::vector<std::string> words(argv, argv + argc);
      words.insert(words.end(), {"--one", std::to_string(length)});
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      execv("/proc/self/exe", arguments.data());
      _exit(127);
    }
    int status = 0;  // the child ends by itself or by its own alarm
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      fmt::print(stderr, "train_step: measuring length {} failed\n", length);
      return 1;
    }
  }
  return 0;
}
