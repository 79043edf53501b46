// A BenchResult in words and as a table for the terminal.
#include <fmt/format.h>

#include <algorithm>

#include "bench/bench.h"

namespace aerie {
namespace {

constexpr double kNoticeable = 0.02;  // a speed-up within this of 1 is called no difference

std::string plural(int64_t count, const char* one) { return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s"); }

struct Equality {
  int64_t answers = 0, equal = 0, ties = 0, unexplained = 0;
};

Equality equality_of(const BenchResult& result) {
  Equality sum;
  for (const WayResult& way : result.ways) {
    if (way.draft_length == 0) continue;
    sum.equal += way.equal;
    sum.ties += way.ties;
    sum.unexplained += way.unexplained;
  }
  sum.answers = sum.equal + sum.ties + sum.unexplained;
  return sum;
}

}  // namespace

std::string cost_sentence(const WayResult& way) {
  if (!way.round_cost || !way.verify_cost || !way.draft_step_cost || way.rounds == 0) return {};
  const double per_round = static_cast<double>(way.drafted) / static_cast<double>(way.rounds);
  const double most = per_round + 1;
  std::string text = fmt::format(
      "With up to {} drafted token{}, one guess costs {:.2f} of a plain step and checking {:.1f} tokens at once costs "
      "{:.2f}: a "
      "round costs {:.2f} plain steps and yields {:.2f} tokens, so {:.2f}x the speed of the target alone is to be "
      "expected.",
      way.draft_length, way.draft_length == 1 ? "" : "s", *way.draft_step_cost, most, *way.verify_cost, *way.round_cost,
      way.acceptance_length, way.acceptance_length / *way.round_cost);
  if (*way.round_cost >= most) {
    text += fmt::format(
        " Even a draft whose every guess is right ({:.1f} tokens a round) could not pay here: checking is too "
        "expensive on this machine with these weights.",
        most);
  } else if (way.acceptance_length < *way.round_cost) {
    text += fmt::format(" It pays from an acceptance length of {:.2f} on; a perfect draft would reach {:.2f}x.",
                        *way.round_cost, most / *way.round_cost);
  }
  return text;
}

std::string equality_sentence(const BenchResult& result) {
  const Equality sum = equality_of(result);
  if (sum.answers == 0) return "No answer was compared.";
  if (sum.equal == sum.answers) {
    return fmt::format("All {} are the same as the target's own, token by token.", plural(sum.answers, "answer"));
  }
  std::string text = fmt::format("{} of {} are the same as the target's own, token by token", sum.equal,
                                 plural(sum.answers, "answer"));
  if (result.temperature > 0) {
    return text + fmt::format("; {} differ, and with sampling the cause cannot be told.", sum.answers - sum.equal);
  }
  if (sum.ties > 0) {
    text += fmt::format(
        "; {} part{} from them at a numeric tie of the target's two best tokens (logits closer than {:.3g})",
        plural(sum.ties, "answer"), sum.ties == 1 ? "s" : "", result.tie_gap);
  }
  if (sum.unexplained > 0)
    text += fmt::format("; {} differ{} WITHOUT EXPLANATION", plural(sum.unexplained, "answer"),
                        sum.unexplained == 1 ? "s" : "");
  return text + ".";
}

std::string bench_verdict(const BenchResult& result) {
  const WayResult* best = result.best();
  if (!best || !best->speedup_total) return "No speed-up could be measured. " + equality_sentence(result);
  if (result.failed) {
    std::string text = "The answers with the draft are not the target's own: " + equality_sentence(result);
    for (const Difference& difference : result.differences) {
      if (!difference.tie)
        return text + " First: " + difference.sentence + " Speeds mean nothing until this is understood.";
    }
    return text;
  }
  const double ratio = *best->speedup_total;
  const std::string with = plural(best->draft_length, "drafted token");
  std::string text;
  if (ratio >= 1 + kNoticeable) {
    text = fmt::format("With {} a round, answers come {:.2f}x faster than from the target alone", with, ratio);
    if (best->speedup) {
      text += fmt::format(" (half of the {} between {:.2f}x and {:.2f}x)", plural(best->speedup->count, "prompt"),
                          best->speedup->q1, best->speedup->q3);
    }
    text += fmt::format("; a round yields {:.2f} tokens. ", best->acceptance_length);
  } else if (ratio > 1 - kNoticeable) {
    text = fmt::format(
        "Speculation makes no difference here: at best, with {} a round, {:.2f}x the speed of the target alone. ", with,
        ratio);
  } else {
    text = fmt::format(
        "Speculation does not pay here: at best, with {} a round, answers come at {:.2f}x the speed of the target "
        "alone, although a round yields {:.2f} tokens. ",
        with, ratio, best->acceptance_length);
  }
  return text + equality_sentence(result);
}

std::string bench_table(const BenchResult& result) {
  std::string text =
      fmt::format("{}: {}\n{}, up to {} tokens each, temperature {}\n\n", result.subject.label, result.description,
                  plural(static_cast<int64_t>(result.prompts.size()), "prompt"), result.max_tokens, result.temperature);
  text += "  drafted   tokens/s   speed-up  (quartiles)      tokens/round   accepted at position 1, 2, ...\n";
  for (const WayResult& way : result.ways) {
    if (way.draft_length == 0) {
      text += fmt::format("  {:>7}   {:>8.1f}\n", "none", way.tokens_per_s);
      continue;
    }
    const std::string total = way.speedup_total ? fmt::format("{:.2f}x", *way.speedup_total) : "?";
    const std::string spread = way.speedup ? fmt::format("({:.2f} - {:.2f})", way.speedup->q1, way.speedup->q3) : "";
    std::string positions;
    for (double share : way.acceptance) positions += fmt::format("{:.0f} % ", 100 * share);
    text += fmt::format("{} {:>7}   {:>8.1f}   {:>8}  {:<15}  {:>12.2f}   {}\n",
                        result.best_draft_length == way.draft_length ? "*" : " ", way.draft_length, way.tokens_per_s,
                        total, spread, way.acceptance_length, positions);
  }
  text += "\n" + result.verdict + "\n";
  if (!result.cost_sentence.empty()) text += result.cost_sentence + "\n";
  return text;
}

}  // namespace aerie
