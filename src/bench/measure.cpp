// The measuring loop: every prompt in every way, in rotating order, and what comes of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"
#include "bench/bench.h"

namespace aerie {
namespace {

constexpr double kNoiseFactor =
    4;  // a flip needs a change as large as the gap; the largest one seen is a sample, no bound
constexpr double kLeastTieGap = 0.001;      // where both kinds of pass agreed to the bit
constexpr size_t kPromptsDespiteLimit = 3;  // fewer give no spread

// Sums over the rounds of all answers of one way; position i counts rounds that drafted more than i tokens.
struct RoundCounts {
  std::vector<int64_t> tried, reached, accepted;

  void add(const Decoded& answer) {
    const size_t rounds = std::min(answer.drafted.size(), answer.accepted.size());
    for (size_t round = 0; round + 1 < rounds; ++round) {
      for (int i = 0; i < answer.drafted[round]; ++i) {
        const size_t at = static_cast<size_t>(i);
        if (tried.size() <= at) {
          tried.resize(at + 1);
          reached.resize(at + 1);
          accepted.resize(at + 1);
        }
        ++tried[at];
        if (answer.accepted[round] >= i) ++reached[at];
        if (answer.accepted[round] > i) ++accepted[at];
      }
    }
  }
};

struct Way {
  WayResult sums;
  RoundCounts rounds;
  double plain_prefill_s = 0, plain_decode_s = 0;  // of the target alone, over the same prompts
  int64_t plain_tokens = 0;
  std::vector<double> ratios;
};

double rate(int64_t tokens, double seconds) { return static_cast<double>(tokens) / seconds; }

Status check_config(const std::vector<BenchPrompt>& prompts, const BenchConfig& config) {
  if (prompts.empty()) return invalid("bench: no prompts to measure; name a file of held-out prompts in bench.prompts");
  if (config.draft_lengths.empty())
    return invalid("bench.draft_lengths is empty: name one length at least, such as [3]");
  for (int length : config.draft_lengths) {
    if (length < 1 || length > 64) {
      return invalid(
          fmt::format("bench.draft_lengths: {} is outside 1 to 64 (the target alone is always measured)", length));
    }
  }
  if (config.max_tokens < 2) return invalid("bench.max_tokens must be 2 at least: one token shows no rate");
  return ok_status();
}

std::vector<int> ways_of(const BenchConfig& config) {
  std::vector<int> lengths = config.draft_lengths;
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  lengths.insert(lengths.begin(), 0);
  return lengths;
}

class Bench {
 public:
  Bench(const std::vector<BenchPrompt>& prompts, const BenchConfig& config, const std::string& weight_type,
        const BenchEngine& engine, std::stop_token stop)
      : prompts_(prompts), config_(config), engine_(engine), stop_(std::move(stop)), lengths_(ways_of(config)) {
    BenchResult& result = measured_.result;
    result.weight_type = weight_type;
    result.prompts_asked = static_cast<int64_t>(prompts.size());
    result.max_tokens = config.max_tokens;
    result.temperature = config.temperature;
    result.threads = config.threads;
    for (int length : lengths_) {
      ways_.emplace_back();
      ways_.back().sums.draft_length = length;
    }
  }

  Result<Measured> run() {
    CHECKED(warm_up());
    const double begun_s = engine_.now_s ? engine_.now_s() : 0;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const bool over = config_.time_limit_s > 0 && engine_.now_s && engine_.now_s() - begun_s > config_.time_limit_s;
      if (over && i >= kPromptsDespiteLimit) break;
      CHECKED(measure_prompt(i));
    }
    conclude();
    return std::move(measured_);
  }

 private:
  DecodeRequest request_for(size_t prompt, int draft_length) const {
    DecodeRequest request;
    request.prompt_ids = prompts_[prompt].ids;
    request.max_tokens = config_.max_tokens;
    request.draft_length = draft_length;
    request.p_min = config_.p_min;
    request.temperature = config_.temperature;
    request.top_p = config_.top_p;
    request.top_k = config_.top_k;
    // The same seed for every way of a prompt: then a sampled answer must come out the same, too.
    request.seed = Random(static_cast<uint64_t>(config_.seed), prompt).next();
    return request;
  }

  // The first passes of an engine allocate, map and repack weights; no answer should pay for that.
  Status warm_up() {
    for (int length : {0, lengths_.back()}) {
      DecodeRequest request = request_for(0, length);
      request.max_tokens = std::min(config_.max_tokens, 8);
      auto answer = engine_.decode(request, stop_);
      if (!answer)
        return std::move(answer).error().under(fmt::format("bench, warming up with prompt '{}'", prompts_[0].id));
    }
    return ok_status();
  }

  Status measure_prompt(size_t prompt) {
    std::vector<std::vector<Decoded>> answers(lengths_.size());
    for (int repeat = 0; repeat < std::max(config_.repeats, 1); ++repeat) {
      for (size_t i = 0; i < lengths_.size(); ++i) {
        const size_t way = (prompt + static_cast<size_t>(repeat) + i) % lengths_.size();
        const DecodeRequest request = request_for(prompt, lengths_[way]);
        auto answer = engine_.decode(request, stop_);
        if (!answer) {
          return std::move(answer).error().under(
              fmt::format("bench, prompt '{}', draft length {}", prompts_[prompt].id, lengths_[way]));
        }
        if (answer->ids.empty()) {
          return internal(fmt::format("bench, prompt '{}', draft length {}: the decoder gave no token",
                                      prompts_[prompt].id, lengths_[way]));
        }
        if (engine_.on_answer) engine_.on_answer(prompts_[prompt], request, *answer);
        answers[way].push_back(*std::move(answer));
      }
    }
    compare(prompt, answers);
    count(prompt, answers);
    return ok_status();
  }

  // Every answer against the first plain one; repeats of the plain one included, as they must agree as well.
  void compare(size_t prompt, const std::vector<std::vector<Decoded>>& answers) {
    const Decoded& plain = answers[0][0];
    for (size_t way = 0; way < answers.size(); ++way) {
      for (size_t repeat = 0; repeat < answers[way].size(); ++repeat) {
        if (way == 0 && repeat == 0) continue;
        const Decoded& other = answers[way][repeat];
        const std::optional<Difference> difference = difference_of(prompt, lengths_[way], plain, other);
        if (difference)
          measured_.result.differences.push_back(*difference);
        else
          ++ways_[way].sums.equal;
      }
    }
  }

  std::optional<Difference> difference_of(size_t prompt, int draft_length, const Decoded& plain, const Decoded& other) {
    const size_t shorter = std::min(plain.ids.size(), other.ids.size());
    size_t at = 0;
    while (at < shorter && plain.ids[at] == other.ids[at]) {
      if (at < plain.gaps.size() && at < other.gaps.size()) {
        const double change = std::abs(plain.gaps[at] - other.gaps[at]);
        measured_.result.noise = std::max(measured_.result.noise.value_or(0), change);
      }
      ++at;
    }
    if (at == plain.ids.size() && at == other.ids.size()) return std::nullopt;

    Difference difference;
    difference.prompt_id = prompts_[prompt].id;
    difference.draft_length = draft_length;
    difference.position = static_cast<int64_t>(at);
    if (at < plain.ids.size()) difference.plain_token = plain.ids[at];
    if (at < other.ids.size()) difference.speculative_token = other.ids[at];
    // Rounding that lets the second best win leaves a small gap in both passes, so the larger one decides.
    if (at < shorter && at < plain.gaps.size() && at < other.gaps.size()) {
      difference.gap = std::max(plain.gaps[at], other.gaps[at]);
    }
    return difference;
  }

  // Once everything is measured, the noise between one-row and many-row passes is known: it, and never more than
  // rounding of these weights can do, says which differences are ties.
  void judge_differences() {
    BenchResult& result = measured_.result;
    const double most = tie_tolerance(result.weight_type, config_.kv_type);
    const double seen = std::max(kLeastTieGap, kNoiseFactor * result.noise.value_or(most));
    result.tie_gap = config_.tie_gap > 0 ? config_.tie_gap : std::min(most, seen);
    for (Difference& difference : result.differences) {
      difference.tie = config_.temperature == 0 && difference.gap && *difference.gap <= result.tie_gap;
      difference.sentence = difference_sentence(difference);
      for (Way& way : ways_) {
        if (way.sums.draft_length == difference.draft_length) ++(difference.tie ? way.sums.ties : way.sums.unexplained);
      }
    }
  }

  std::string difference_sentence(const Difference& difference) const {
    const auto token = [](int32_t id) {
      return id < 0 ? std::string("the end of the answer") : fmt::format("token {}", id);
    };
    std::string text = fmt::format("Prompt '{}', position {}: the target alone gives {}, with {} drafted it gives {}; ",
                                   difference.prompt_id, difference.position, token(difference.plain_token),
                                   difference.draft_length, token(difference.speculative_token));
    if (config_.temperature > 0)
      return text + "with sampling the cause cannot be told from the logits (use temperature 0).";
    if (!difference.gap) return text + "one answer ends where the other goes on, which no rounding explains.";
    return text +
           fmt::format("the two best logits are {:.4f} apart there, {} rounding of {} weights explains ({:.3g}).",
                       *difference.gap, difference.tie ? "which" : "more than", measured_.result.weight_type,
                       measured_.result.tie_gap);
  }

  // The repeat with the median decode time stands for its way, so that its parts belong together.
  static const Decoded& median_of(const std::vector<Decoded>& repeats) {
    std::vector<const Decoded*> order;
    for (const Decoded& one : repeats) order.push_back(&one);
    std::sort(order.begin(), order.end(),
              [](const Decoded* a, const Decoded* b) { return a->decode_s() < b->decode_s(); });
    return *order[(order.size() - 1) / 2];
  }

  void count(size_t prompt, std::vector<std::vector<Decoded>>& answers) {
    const Decoded& plain = median_of(answers[0]);
    PromptResult of_prompt;
    of_prompt.id = prompts_[prompt].id;
    of_prompt.prompt_tokens = static_cast<int64_t>(prompts_[prompt].ids.size());
    for (size_t way = 0; way < answers.size(); ++way) {
      const Decoded& answer = median_of(answers[way]);
      const int64_t tokens = static_cast<int64_t>(answer.ids.size());
      const int64_t plain_tokens = static_cast<int64_t>(plain.ids.size());
      Way& into = ways_[way];
      WayResult& sums = into.sums;
      ++sums.answers;
      sums.tokens += tokens;
      sums.rounds += static_cast<int64_t>(answer.accepted.size());
      for (int drafted : answer.drafted) sums.drafted += drafted;
      for (int accepted : answer.accepted) sums.accepted += accepted;
      sums.prefill_s += answer.prefill_s;
      sums.draft_s += answer.draft_s;
      sums.verify_s += answer.verify_s;
      sums.choose_s += answer.choose_s;
      sums.decode_s += answer.decode_s();
      into.rounds.add(answer);
      into.plain_prefill_s += plain.prefill_s;
      into.plain_decode_s += plain.decode_s();
      into.plain_tokens += plain_tokens;
      if (way > 0 && answer.decode_s() > 0 && plain.decode_s() > 0) {
        into.ratios.push_back(rate(tokens, answer.decode_s()) / rate(plain_tokens, plain.decode_s()));
      }
      of_prompt.ways.push_back(
          {lengths_[way], tokens, static_cast<int64_t>(answer.accepted.size()), answer.prefill_s, answer.decode_s()});
    }
    measured_.result.prompts.push_back(std::move(of_prompt));
    if (measured_.kept.size() < static_cast<size_t>(std::max(config_.sample_count, 0))) keep(prompt, answers);
  }

  void keep(size_t prompt, const std::vector<std::vector<Decoded>>& answers) {
    KeptAnswer kept;
    kept.prompt = prompt;
    kept.plain = median_of(answers[0]);
    for (size_t way = 1; way < answers.size(); ++way)
      kept.speculative.emplace_back(lengths_[way], median_of(answers[way]));
    measured_.kept.push_back(std::move(kept));
  }

  void conclude() {
    BenchResult& result = measured_.result;
    judge_differences();
    const WayResult& plain = ways_[0].sums;
    result.plain_step_s = plain.decode_s / static_cast<double>(plain.tokens);
    double best = 0;
    for (Way& way : ways_) {
      finish_way(way, result.plain_step_s);
      if (way.sums.speedup_total && *way.sums.speedup_total > best) {
        best = *way.sums.speedup_total;
        result.best_draft_length = way.sums.draft_length;
      }
      if (config_.temperature == 0 && way.sums.unexplained > 0) result.failed = true;
      result.ways.push_back(way.sums);
    }
    if (const WayResult* way = result.best()) result.cost_sentence = cost_sentence(*way);
    result.verdict = bench_verdict(result);
  }

  static void finish_way(Way& way, double plain_step_s) {
    WayResult& sums = way.sums;
    if (sums.decode_s > 0) sums.tokens_per_s = rate(sums.tokens, sums.decode_s);
    if (sums.rounds > 0) sums.acceptance_length = static_cast<double>(sums.tokens) / static_cast<double>(sums.rounds);
    for (size_t i = 0; i < way.rounds.tried.size(); ++i) {
      const double accepted = static_cast<double>(way.rounds.accepted[i]);
      sums.acceptance.push_back(accepted / static_cast<double>(way.rounds.tried[i]));
      // A position that was never reached has no conditional rate, nor have those behind it.
      if (way.rounds.reached[i] > 0) {
        sums.acceptance_given_before.push_back(accepted / static_cast<double>(way.rounds.reached[i]));
      }
    }
    if (sums.draft_length == 0 || sums.rounds == 0 || plain_step_s <= 0) return;
    const double rounds = static_cast<double>(sums.rounds);
    sums.speedup = spread_of(way.ratios);
    if (sums.decode_s > 0) {
      sums.speedup_total = rate(sums.tokens, sums.decode_s) / rate(way.plain_tokens, way.plain_decode_s);
      sums.speedup_whole = rate(sums.tokens, sums.decode_s + sums.prefill_s) /
                           rate(way.plain_tokens, way.plain_decode_s + way.plain_prefill_s);
    }
    if (sums.drafted > 0) sums.draft_step_cost = sums.draft_s / static_cast<double>(sums.drafted) / plain_step_s;
    sums.verify_cost = sums.verify_s / rounds / plain_step_s;
    sums.round_cost = sums.decode_s / rounds / plain_step_s;
  }

  const std::vector<BenchPrompt>& prompts_;
  const BenchConfig& config_;
  const BenchEngine& engine_;
  const std::stop_token stop_;
  const std::vector<int> lengths_;
  std::vector<Way> ways_;
  Measured measured_;
};

}  // namespace

Result<Measured> measure(const std::vector<BenchPrompt>& prompts, const BenchConfig& config,
                         const std::string& weight_type, const BenchEngine& engine, std::stop_token stop) {
  CHECKED(check_config(prompts, config));
  return Bench(prompts, config, weight_type, engine, std::move(stop)).run();
}

}  // namespace aerie
