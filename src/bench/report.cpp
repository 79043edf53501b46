// The report page: its order, its words, and the sections that are not about measurements.
#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/progress.h"
#include "base/text.h"
#include "bench/html.h"
#include "bench/page_assets.h"
#include "bench/report_parts.h"

namespace aerie {
namespace {

std::string name_of_target(const BenchResult& bench) {
  return bench.subject.label.empty() ? bench.weight_type : bench.subject.label;
}

// "2.41" as "2.4": the first words need no second digit.
std::string short_number(double value) { return fmt::format("{:.1f}", value); }

std::string verdict_on(const BenchResult& bench) {
  const WayResult* best = bench.best();
  const std::string on = "On the " + name_of_target(bench) + " model ";
  if (bench.failed)
    return on + "the answers with the draft are not the target's own, and that is an error: see below. ";
  if (!best || !best->speedup_total) return on + "no speed-up could be measured. ";
  const double ratio = *best->speedup_total;
  int64_t changed = 0;
  for (const WayResult& way : bench.ways) changed += way.draft_length > 0 ? way.ties + way.unexplained : 0;
  const std::string output = changed == 0            ? "with identical output"
                             : bench.temperature > 0 ? "with some sampled answers that differ"
                                                     : "with output identical but for numeric ties";
  if (ratio >= 1.02) return on + fmt::format("answers come {:.2f}x faster, {}. ", ratio, output);
  if (ratio > 0.98) return on + fmt::format("it makes no difference ({:.2f}x), {}. ", ratio, output);
  std::string text = on + fmt::format("it does not pay ({:.2f}x at best)", ratio);
  if (best->round_cost && best->verify_cost) {
    text += fmt::format(", because a round costs {} times an ordinary step and yields {} tokens",
                        short_number(*best->round_cost), short_number(best->acceptance_length));
  }
  return text + fmt::format("; {}. ", output);
}

std::string what_section() {
  return "<h2>What this is about</h2>\n<p class=\"prose\">A language model (the <em>target</em>) writes one token, a "
         "piece of a word, "
         "per step, and every step has to read all of its weights. A much smaller model (the <em>draft</em>) can guess "
         "the next few "
         "tokens from the target's inner state. The target then checks all guesses in one step, keeps those it would "
         "have written "
         "itself, and adds one token of its own. The answer stays the same; the number of steps shrinks. How many "
         "tokens a step "
         "yields on average, the target's own included, is called the <em>acceptance length</em>: 1 means that every "
         "guess was "
         "wrong.</p>\n";
}

std::string stages_section(const std::vector<ReportStage>& stages) {
  if (stages.empty()) return {};
  double longest = 0, sum = 0;
  bool unknown = false;
  for (const ReportStage& stage : stages) {
    longest = std::max(longest, stage.seconds.value_or(0));
    sum += stage.seconds.value_or(0);
    unknown = unknown || !stage.seconds;
  }
  HtmlTable table("", {{"stage", HtmlTable::kWord},
                       {"what it does", HtmlTable::kProse},
                       {"what came of it", HtmlTable::kProse},
                       {"time"},
                       {"", HtmlTable::kWord}});
  for (const ReportStage& stage : stages) {
    std::string bar;
    if (stage.seconds && longest > 0)
      bar = fmt::format("<span class=\"bar\" style=\"width:{:.0f}px\"></span>", 2 + 88 * *stage.seconds / longest);
    table.row({"<strong>" + html_text(stage.name) + "</strong>", html_text(stage.purpose), html_text(stage.sentence),
               stage.seconds ? html_text(duration_text(*stage.seconds)) : "unknown", bar});
  }
  return "<h2>What was done</h2>\n" + table.text() + "<p class=\"soft small\">" + html_text(duration_text(sum)) +
         (unknown ? " in all, without the stages whose time is unknown.</p>\n" : " in all.</p>\n");
}

std::string machine_section(const ReportData& data) {
  std::string out = "<h2>What it was measured with</h2>\n<div class=\"grid\">\n";
  const auto part = [&](const std::string& title, const std::vector<std::pair<std::string, std::string>>& facts) {
    if (!facts.empty())
      out += "<div class=\"card\"><h3>" + html_text(title) + "</h3>\n" + html_facts(facts) + "</div>\n";
  };
  std::vector<std::pair<std::string, std::string>> machine;
  if (data.machine) {
    const MachineFacts& facts = *data.machine;
    machine.emplace_back("processor", facts.cpu_model.value_or("unknown"));
    machine.emplace_back("cores", facts.core_count ? std::to_string(*facts.core_count) : "unknown");
    machine.emplace_back("memory", facts.memory_bytes ? bytes_text(*facts.memory_bytes) : "unknown");
    if (facts.memory_limit_bytes) machine.emplace_back("memory limit", bytes_text(*facts.memory_limit_bytes));
    machine.emplace_back("instructions", facts.cpu_flags.empty() ? "unknown" : join(facts.cpu_flags, " "));
    machine.emplace_back("system", facts.os.value_or("unknown"));
    machine.emplace_back("kernel", facts.kernel.value_or("unknown"));
    machine.emplace_back("load when this page was made",
                         facts.load_1min ? fmt::format("{:.2f}", *facts.load_1min) : "unknown");
  } else {
    machine.emplace_back("machine", "unknown");
  }
  part("Machine", machine);
  part("Versions", data.versions);
  part("Target", data.target_facts);
  part("Draft", data.draft_facts);
  out += "</div>\n";
  for (const BenchResult& bench : data.benches) {
    if (!bench.description.empty()) {
      out += "<p class=\"soft small\">" + html_text(name_of_target(bench) + ": " + bench.description) + "</p>\n";
    }
  }
  if (!data.target_fingerprint.empty()) {
    out += "<p class=\"small soft\">Fingerprint of the target that the draft was made for: <code>" +
           html_text(data.target_fingerprint) + "</code></p>\n";
  }
  return out;
}

std::vector<std::string> limits_of(const ReportData& data) {
  std::vector<std::string> limits = data.limits;
  for (const BenchResult& bench : data.benches) {
    const int64_t done = static_cast<int64_t>(bench.prompts.size());
    if (done < bench.prompts_asked) {
      limits.push_back(fmt::format("{}: the time limit ended the measurement after {} of {} prompts.",
                                   name_of_target(bench), done, bench.prompts_asked));
    }
    if (done < 10) {
      limits.push_back(fmt::format("{}: {} prompts are few; another choice of prompts may give other numbers.",
                                   name_of_target(bench), done));
    }
    if (bench.subject.target_fingerprint.empty()) {
      limits.push_back(name_of_target(bench) +
                       ": the draft was not made for exactly these weights, or their fingerprint was not compared.");
    }
  }
  if (!data.benches.empty()) {
    limits.push_back(
        "One answer at a time. A server that answers many at once has less to gain, as its steps are shared already.");
    limits.push_back(
        "Other text than these prompts' (other languages, long documents, code) can be easier or harder to guess.");
  }
  return limits;
}

std::string limits_section(const ReportData& data) {
  const std::vector<std::string> limits = limits_of(data);
  if (limits.empty()) return {};
  std::string out = "<h2>What this does not show</h2>\n<ul>\n";
  for (const std::string& limit : limits) out += "<li>" + html_text(limit) + "</li>\n";
  return out + "</ul>\n";
}

}  // namespace

std::string training_section(const TrainingCurve& curve) {
  if (curve.train.empty() && curve.validation.empty()) return {};
  std::string out =
      "<h2>How the draft learned</h2>\n<p class=\"prose\">The loss is the distance between what the draft and what the "
      "target expect "
      "next; lower is better. A part of the text is set aside and never trained on (validation): where its curve rises "
      "while the "
      "other falls, the draft only learns by heart. While it learns, the draft has to go on from its own guesses, "
      "several in a row, "
      "just as it will be used; accuracy is given for each of them.</p>\n<div class=\"grid\">\n";
  out += html_chart("chart-loss", "Training and validation loss by step", "Loss by training step.");
  if (!curve.validation.empty() && !curve.validation.front().accuracy.empty()) {
    out += html_chart("chart-accuracy", "Accuracy of each guess by step",
                      "Accuracy on validation text, for each guess in a row.");
  }
  out += "</div>\n";
  if (curve.validation.empty()) return out + "<p>No validation was recorded.</p>\n";
  const ValidationPoint& last = curve.validation.back();
  if (last.acceptance_estimate) {
    out += "<p class=\"prose\">" +
           html_text(fmt::format("At the end (step {}) the validation text promises an acceptance length of {:.2f}; "
                                 "what the bench found on new prompts stands above.",
                                 last.step, *last.acceptance_estimate)) +
           "</p>\n";
  }
  std::vector<HtmlTable::Column> columns = {{"step"}, {"validation loss"}, {"acceptance length (estimate)"}};
  for (size_t k = 0; k < last.accuracy.size(); ++k) columns.push_back({fmt::format("guess {}", k + 1)});
  HtmlTable table("Validation", columns);
  for (const ValidationPoint& point : curve.validation) {
    std::vector<std::string> cells = {
        std::to_string(point.step), fmt::format("{:.4f}", point.loss),
        point.acceptance_estimate ? fmt::format("{:.2f}", *point.acceptance_estimate) : "unknown"};
    for (double accuracy : point.accuracy) cells.push_back(fmt::format("{:.1f} %", 100 * accuracy));
    table.row(cells);
  }
  return out + "<details><summary>All validations as a table</summary>\n" + table.text() + "</details>\n";
}

std::string report_verdict(const std::vector<BenchResult>& benches) {
  if (benches.empty()) return "Nothing was measured yet: the bench has not run.";
  const WayResult* widest = nullptr;
  for (const BenchResult& bench : benches) {
    const WayResult* best = bench.best();
    if (best && (!widest || best->acceptance_length > widest->acceptance_length)) widest = best;
  }
  std::string text;
  if (widest) {
    text = fmt::format("With the draft's guesses, the target makes {} tokens per step instead of one. ",
                       short_number(widest->acceptance_length));
  }
  for (const BenchResult& bench : benches) text += verdict_on(bench);
  return std::string(trim(text));
}

std::string report_html(const ReportData& data) {
  const bool charts = !chart_js().empty();
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\"";
  page += charts ? ">\n" : " class=\"no-charts\">\n";
  page +=
      "<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" + html_text(data.title) + " - Aerie</title>\n";
  page += "<style>\n" + std::string(page_style()) +
          "</style>\n<noscript><style>.plot { display: none; }</style></noscript>\n</head>\n<body>\n<main>\n";
  if (!data.notice.empty()) page += "<p class=\"notice\"><strong>Note.</strong> " + html_text(data.notice) + "</p>\n";
  page += "<header><p class=\"kind\">Aerie report</p>\n<h1>" + html_text(data.title) + "</h1>\n";
  page += "<p class=\"soft small\">" + html_text(data.made_at) + "</p></header>\n";
  page += "<p class=\"verdict\">" + html_text(report_verdict(data.benches)) + "</p>\n";
  if (!charts)
    page += "<p class=\"notice\">This program was built without Chart.js, so the page has tables and no charts.</p>\n";
  page += cards_section(data.benches) + what_section() + speed_section(data.benches) + cost_section(data.benches);
  page += acceptance_section(data.benches) + samples_section(data.benches) + equality_section(data.benches);
  page += training_section(data.training) + stages_section(data.stages) + machine_section(data) + limits_section(data);
  page += "<footer>Made by Aerie. This page is one file and loads nothing.";
  if (charts) page += " Charts by Chart.js (MIT licence).";
  page += "</footer>\n</main>\n";
  if (charts) {
    page += "<script type=\"application/json\" id=\"report-data\">" + script_data(chart_data(data)) + "</script>\n";
    page +=
        "<script>\n" + script_code(chart_js()) + "\n</script>\n<script>\n" + script_code(page_script()) + "</script>\n";
  }
  return page + "</body>\n</html>\n";
}

Status write_report(FileSystem& fs, const std::string& path, const ReportData& data) {
  if (auto written = write_file_atomically(fs, path, report_html(data)); !written) {
    return std::move(written).error().under("report");
  }
  return ok_status();
}

}  // namespace aerie
