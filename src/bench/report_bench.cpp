// The report's sections about speed, cost, acceptance, equality and answers.
#include <fmt/format.h>

#include <algorithm>

#include "bench/html.h"
#include "bench/report_parts.h"

namespace aerie {
namespace {

constexpr size_t kMostDifferences = 12;  // listed; all of them stand in results.json

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}x", *ratio) : "unknown";
}
std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "unknown";
}
std::string percent_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string name_of_target(const BenchResult& bench) {
  return bench.subject.label.empty() ? bench.weight_type : bench.subject.label;
}

std::string card(const BenchResult& bench) {
  const WayResult* best = bench.best();
  const WayResult* plain = bench.way(0);
  std::string tag = "<span class=\"tag flat\">no figure</span>";
  if (bench.failed)
    tag = "<span class=\"tag bad\">answers differ</span>";
  else if (best && best->speedup_total && *best->speedup_total >= 1.02)
    tag = "<span class=\"tag good\">faster</span>";
  else if (best && best->speedup_total && *best->speedup_total > 0.98)
    tag = "<span class=\"tag flat\">no difference</span>";
  else if (best && best->speedup_total)
    tag = "<span class=\"tag bad\">slower</span>";

  std::string out = "<div class=\"card\"><h3>" + html_text(name_of_target(bench)) + " weights " + tag + "</h3>\n";
  if (!bench.subject.note.empty()) out += "<p class=\"soft small\">" + html_text(bench.subject.note) + "</p>\n";
  out += "<div class=\"figure-row\">";
  const auto figure = [&](const std::string& value, const std::string& meaning) {
    out += "<div class=\"figure\"><b>" + html_text(value) + "</b><span>" + html_text(meaning) + "</span></div>";
  };
  if (best) {
    figure(ratio_text(best->speedup_total), "the speed of the target alone");
    figure(fmt::format("{:.2f}", best->acceptance_length), "tokens per step");
    if (plain) figure(fmt::format("{:.0f} \u2192 {:.0f}", plain->tokens_per_s, best->tokens_per_s), "tokens a second");
  }
  out += "</div>\n<p class=\"small\">" + html_text(bench.verdict) + "</p></div>\n";
  return out;
}

std::string speed_table(const BenchResult& bench) {
  HtmlTable table(fmt::format("{}: {} prompts, answers of up to {} tokens", name_of_target(bench), bench.prompts.size(),
                              bench.max_tokens),
                  {{"drafted a round"},
                   {"tokens/s"},
                   {"speed-up"},
                   {"middle half of prompts"},
                   {"slowest to fastest"},
                   {"with prompt reading"},
                   {"tokens a round"}});
  for (const WayResult& way : bench.ways) {
    if (way.draft_length == 0) {
      table.row({"none (target alone)", fmt::format("{:.1f}", way.tokens_per_s), "1", "", "", "1", "1.00"});
      continue;
    }
    const bool best = bench.best_draft_length == way.draft_length;
    table.row({(best ? "best: " : "") + std::to_string(way.draft_length), fmt::format("{:.1f}", way.tokens_per_s),
               ratio_text(way.speedup_total),
               way.speedup ? fmt::format("{:.2f} to {:.2f}", way.speedup->q1, way.speedup->q3) : "unknown",
               way.speedup ? fmt::format("{:.2f} to {:.2f}", way.speedup->low, way.speedup->high) : "unknown",
               ratio_text(way.speedup_whole), fmt::format("{:.2f}", way.acceptance_length)},
              best ? "best" : "");
  }
  return table.text();
}

std::string sample_card(const SampleAnswer& sample) {
  std::string out =
      "<div class=\"card\"><p class=\"prompt\">" + html_text(sample.prompt) + "</p>\n<div class=\"pair\">\n";
  out += "<div><h4>The target alone</h4><div class=\"answer\">" + html_text(sample.plain_text) + "</div></div>\n";
  out += "<div><h4>" + html_text(fmt::format("With up to {} drafted: {} tokens in {} steps", sample.draft_length,
                                             sample.tokens, sample.rounds));
  if (sample.speedup) out += html_text(fmt::format(", {:.2f}x", *sample.speedup));
  out += sample.equal ? ", same tokens" : ", <strong>other tokens</strong>";
  out += "</h4><div class=\"answer\">";
  for (const AnswerPiece& piece : sample.pieces) {
    out += piece.drafted ? "<mark>" + html_text(piece.text) + "</mark>" : html_text(piece.text);
  }
  return out + "</div></div>\n</div></div>\n";
}

}  // namespace

std::string cards_section(const std::vector<BenchResult>& benches) {
  if (benches.empty()) return {};
  std::string out = "<div class=\"grid\">\n";
  for (const BenchResult& bench : benches) out += card(bench);
  return out + "</div>\n";
}

std::string speed_section(const std::vector<BenchResult>& benches) {
  if (benches.empty()) return {};
  std::string out =
      "<h2>How much faster</h2>\n<p class=\"prose\">The same prompts, none of which the draft was trained on, are "
      "answered by the "
      "target alone and with the draft, one after another in rotating order. A speed-up is always a ratio within one "
      "prompt, so a "
      "machine that is busy with other things slows both sides alike. The numbers count the writing of the answer; "
      "reading the "
      "prompt, which a draft cannot make faster, is in its own column.</p>\n";
  out += html_chart("chart-speed", "Speed-up for each number of drafted tokens; the numbers stand in the tables below",
                    "Bars: all tokens by all seconds, against the target alone (dashed line). Whiskers: the middle "
                    "half of the prompts.");
  for (const BenchResult& bench : benches) out += speed_table(bench);
  return out;
}

std::string cost_section(const std::vector<BenchResult>& benches) {
  if (benches.empty()) return {};
  std::string out =
      "<h2>Why it pays, or does not</h2>\n<p class=\"prose\">In each round the draft guesses a few tokens, one cheap "
      "step each, and "
      "the target then checks all of them in one pass. The unit here is one ordinary step of the target, which makes "
      "one token. "
      "A round is worth its cost when it yields more tokens than it costs steps: when the line runs above the bars. "
      "Checking "
      "several tokens at once is nearly free where reading the weights from memory is what takes the time (large or "
      "unpacked "
      "weights, GPUs), and expensive where arithmetic does (small packed weights on few cores).</p>\n<div "
      "class=\"grid\">\n";
  for (size_t i = 0; i < benches.size(); ++i) {
    const BenchResult& bench = benches[i];
    out += "<div class=\"card\"><h3>" + html_text(name_of_target(bench)) + "</h3>";
    out += html_chart(fmt::format("chart-cost-{}", i),
                      "Cost of a round and tokens it yields; the numbers stand in the table below", "", true);
    out += "<p class=\"small\">" + html_text(bench.cost_sentence) + "</p></div>\n";
  }
  out += "</div>\n";
  HtmlTable table("Cost in plain steps of the target", {{"target", HtmlTable::kWord},
                                                        {"drafted a round"},
                                                        {"one guess"},
                                                        {"checking"},
                                                        {"whole round"},
                                                        {"tokens it yields"},
                                                        {"one plain step"}});
  for (const BenchResult& bench : benches) {
    for (const WayResult& way : bench.ways) {
      if (way.draft_length == 0) continue;
      table.row({html_text(name_of_target(bench)), std::to_string(way.draft_length), number_text(way.draft_step_cost),
                 number_text(way.verify_cost), number_text(way.round_cost),
                 fmt::format("{:.2f}", way.acceptance_length), fmt::format("{:.2f} ms", 1000 * bench.plain_step_s)});
    }
  }
  return out + table.text();
}

std::string acceptance_section(const std::vector<BenchResult>& benches) {
  size_t positions = 0;
  for (const BenchResult& bench : benches) {
    for (const WayResult& way : bench.ways) positions = std::max(positions, way.acceptance.size());
  }
  if (positions == 0) return {};
  std::string out =
      "<h2>How often the draft is right</h2>\n<p class=\"prose\">A guess only counts when every guess before it in the "
      "round was "
      "right too, so the share falls along the chain (solid). How good a single guess is shows the share among the "
      "rounds in which "
      "all before were right (dashed): where that falls as well, the draft loses the thread by building on its own "
      "guesses.</p>\n";
  out += html_chart("chart-acceptance",
                    "Share of right guesses by position in the chain; the numbers stand in the table below",
                    "For the longest chain that was measured.");
  std::vector<HtmlTable::Column> columns = {{"target", HtmlTable::kWord}, {"drafted a round"}, {"tokens a round"}};
  for (size_t i = 0; i < positions; ++i) columns.push_back({fmt::format("guess {}", i + 1)});
  HtmlTable table("Guesses that were right, of all rounds (among rounds in which those before were right)", columns);
  for (const BenchResult& bench : benches) {
    for (const WayResult& way : bench.ways) {
      if (way.draft_length == 0) continue;
      std::vector<std::string> cells = {html_text(name_of_target(bench)), std::to_string(way.draft_length),
                                        fmt::format("{:.2f}", way.acceptance_length)};
      for (size_t i = 0; i < positions; ++i) {
        std::string cell = i < way.acceptance.size() ? percent_text(way.acceptance[i]) : "";
        if (i > 0 && i < way.acceptance_given_before.size())
          cell += " (" + percent_text(way.acceptance_given_before[i]) + ")";
        cells.push_back(cell);
      }
      table.row(cells);
    }
  }
  return out + table.text();
}

std::string equality_section(const std::vector<BenchResult>& benches) {
  if (benches.empty()) return {};
  std::string out =
      "<h2>Are the answers the same?</h2>\n<p class=\"prose\">A guess is kept only when the target chooses the same "
      "token, so a "
      "draft changes the speed and nothing else. This is checked here token by token. One kind of difference is "
      "innocent: where "
      "the target's two best tokens are as good as equal, checking several tokens at once rounds differently from one "
      "at a time, "
      "and either may win. Any other difference would be an error, and this page would say so at the top.</p>\n<ul>\n";
  size_t differences = 0;
  for (const BenchResult& bench : benches) {
    out += "<li><strong>" + html_text(name_of_target(bench)) + "</strong>: " + html_text(equality_sentence(bench));
    if (bench.noise) {
      out += html_text(
          fmt::format(" Where two answers agree, the lead of the best token over the second differed by at most {:.3g} "
                      "between one-token and many-token passes; up to {:.3g} counts as a tie.",
                      *bench.noise, bench.tie_gap));
    }
    out += "</li>\n";
    differences += bench.differences.size();
  }
  out += "</ul>\n";
  if (differences == 0) return out;
  HtmlTable table(fmt::format("The first differences ({} in all)", differences),
                  {{"target", HtmlTable::kWord}, {"what differs", HtmlTable::kProse}, {"verdict"}});
  for (const BenchResult& bench : benches) {
    size_t listed = 0;
    for (const Difference& difference : bench.differences) {
      if (++listed > kMostDifferences) break;
      const char* verdict = difference.tie          ? "<span class=\"tag flat\">tie</span>"
                            : bench.temperature > 0 ? "<span class=\"tag flat\">not judged</span>"
                                                    : "<span class=\"tag bad\">error</span>";
      table.row({html_text(name_of_target(bench)), html_text(difference.sentence), verdict});
    }
  }
  return out + table.text();
}

std::string samples_section(const std::vector<BenchResult>& benches) {
  // The answers of one target are enough to see how it works: the one on which the draft is worth most.
  const BenchResult* shown = nullptr;
  for (const BenchResult& bench : benches) {
    if (bench.samples.empty() || !bench.best() || !bench.best()->speedup_total) continue;
    if (!shown || *bench.best()->speedup_total > *shown->best()->speedup_total) shown = &bench;
  }
  if (!shown) return {};
  std::string out =
      "<h2>Some answers</h2>\n<p class=\"prose\">From the " + html_text(name_of_target(*shown)) +
      " target. <mark>Marked text</mark> was guessed by the draft and kept; the rest was made by the target itself, "
      "one token at the end of each round. The more is marked, the fewer steps the target had to do.</p>\n<div "
      "class=\"samples\">\n";
  for (const SampleAnswer& sample : shown->samples) out += sample_card(sample);
  return out + "</div>\n";
}

}  // namespace aerie
