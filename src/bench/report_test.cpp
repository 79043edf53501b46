#include "bench/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <set>

#include "base/random.h"
#include "bench/fake_engine_test.h"
#include "bench/html.h"
#include "bench/page_assets.h"

namespace aerie {
namespace {

using bench_test::FakeEngine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Makes up an answer of words, some guessed and some not.
SampleAnswer sample(const std::string& id, const std::string& prompt, const std::vector<AnswerPiece>& pieces) {
  SampleAnswer made;
  made.prompt_id = id;
  made.prompt = prompt;
  made.draft_length = 3;
  made.pieces = pieces;
  for (const AnswerPiece& piece : pieces) made.plain_text += piece.text;
  made.equal = true;
  made.tokens = 41;
  made.rounds = 22;
  made.speedup = 1.31;
  return made;
}

BenchResult made_up_bench(const std::string& label, double row_s, double draft_step_s) {
  FakeEngine fake;
  fake.plain_step_s = label == "F16" ? 0.0315 : 0.0124;
  fake.row_s = row_s;
  fake.draft_step_s = draft_step_s;
  Random random(3);
  fake.slowness = [&](int) { return 1 + 0.12 * random.unit(); };
  fake.spoil = [&](const DecodeRequest& request, Decoded& answer) {
    if (answer.ids.size() < 41) return;  // the warm-up
    if (label == "Q4_1" && request.prompt_ids[0] == 5) answer.gaps[40] = 0.031f;
    if (request.draft_length == 0) return;
    // Guesses of falling quality: rounds are made anew until the answer is full.
    answer.drafted.clear();
    answer.accepted.clear();
    answer.draft_s = answer.verify_s = 0;
    const double factor = 1 + 0.12 * random.unit();
    for (size_t out = 0; out < answer.ids.size();) {
      int accepted = 0;
      while (accepted < request.draft_length && random.unit() < 0.58 * std::pow(0.86, accepted)) ++accepted;
      accepted = std::min(accepted, static_cast<int>(answer.ids.size() - out) - 1);
      answer.drafted.push_back(request.draft_length);
      answer.accepted.push_back(accepted);
      answer.draft_s += factor * fake.draft_step_s * request.draft_length;
      answer.verify_s += factor * (fake.plain_step_s + fake.row_s * request.draft_length);
      out += static_cast<size_t>(accepted) + 1;
    }
    answer.total_s = answer.prefill_s + answer.draft_s + answer.verify_s;
    if (label == "Q4_1" && request.draft_length == 4 && request.prompt_ids[0] == 5) answer.ids[40] += 3;
  };
  BenchConfig config = bench_test::config({1, 2, 3, 4, 6}, 128);
  BenchResult result = measure(bench_test::prompts(24), config, label, fake.engine())->result;
  result.subject = {label, "models/target." + label + ".gguf", "out/draft.gguf", label == "Q4_1" ? "3f1d" : "",
                    label == "F16" ? "The same weights, unpacked to 16 bits." : "", label == "F16"};
  result.description = "made-up engine, " + label + ", 2 threads";
  result.samples = {sample("p1", "Why is the sky blue? Answer in two sentences.",
                           {{"The sky", false},
                            {" is blue because", true},
                            {" sunlight", false},
                            {" is scattered", true},
                            {" by", false},
                            {" the air, and", true},
                            {" short", false},
                            {" waves", true},
                            {" are", false},
                            {" scattered most.", true}}),
                    sample("p2", "Write a haiku about <b>escaping</b> & \"quotes\".",
                           {{"A", false},
                            {" small < sign", true},
                            {" stands\n", false},
                            {"where", true},
                            {" a tag", false},
                            {" might begin", true}})};
  return result;
}

TrainingCurve made_up_curve() {
  TrainingCurve curve;
  Random random(5);
  for (int step = 10; step <= 1200; step += 10) {
    const double loss = 1.55 + 2.4 * std::exp(-step / 260.0) + 0.09 * random.normal();
    curve.train.push_back({step, loss, 1e-4, 910.0});
    if (step % 100 != 0) continue;
    ValidationPoint point;
    point.step = step;
    point.loss = 1.74 + 2.3 * std::exp(-step / 270.0);
    for (int k = 0; k < 7; ++k) point.accuracy.push_back(0.56 * std::pow(0.86, k) * (1 - std::exp(-step / 300.0)));
    point.acceptance_estimate = 1 + 0.95 * (1 - std::exp(-step / 320.0));
    curve.validation.push_back(point);
  }
  return curve;
}

ReportData made_up() {
  ReportData data;
  data.title = "SmolLM2-135M-Instruct with an EAGLE-3 draft";
  data.made_at = "2026-12-01T09:30:00Z";
  data.notice = "Made-up data for a test of this page. None of these numbers was measured.";
  data.stages = {{"generate", "the target answers the prompts", 402, "1,400 conversations, 241,000 tokens"},
                 {"extract", "records the target's inner states", 310, "1,400 records, 1.9 GB"},
                 {"train", "teaches the draft to guess what the target says next", 720, "1,200 steps, loss 1.74"},
                 {"export", "writes the draft for the engine", 4.2, "draft.gguf, 31 MB"},
                 {"bench", "measures what the draft is worth", std::nullopt, "24 prompts, two targets"}};
  data.training = made_up_curve();
  data.benches = {made_up_bench("Q4_1", 0.0086, 0.0031), made_up_bench("F16", 0.0021, 0.0034)};
  MachineFacts machine;
  machine.cpu_model = "Imaginary Processor 9000";
  machine.core_count = 2;
  machine.memory_bytes = 25'000'000'000;
  machine.cpu_flags = {"avx2", "fma"};
  machine.os = "Debian GNU/Linux 12 (bookworm)";
  data.machine = machine;
  data.versions = {{"aerie", "0.1.0"}, {"compiler", "g++ 12.2"}};
  data.target_facts = {{"layers", "30"}, {"hidden size", "576"}};
  data.draft_facts = {{"parameters", "12.3 million"}, {"draft vocabulary", "8,192 of 49,152 tokens"}};
  data.target_fingerprint = "3f1d0c";
  data.limits = {"The draft was trained for twelve minutes; a longer run guesses better."};
  return data;
}

// Everything that a browser would fetch.
std::vector<std::string> references(const std::string& html) {
  std::vector<std::string> found;
  static const std::regex kReference(
      R"re(<\w+(\s+[\w-]+="[^"]*")*\s+(src|href|data|action|poster|srcset)\s*=[^>]*>|@import|url\()re");
  // The scripts hold code such as "<" comparisons, which are no tags.
  std::string outside;
  for (size_t at = 0; at < html.size();) {
    const size_t begin = html.find("<script", at);
    outside += html.substr(at, begin == std::string::npos ? std::string::npos : begin - at);
    if (begin == std::string::npos) break;
    const size_t tag_end = html.find('>', begin);
    outside += html.substr(begin, tag_end + 1 - begin);
    at = html.find("</script>", tag_end);
  }
  for (std::sregex_iterator it(outside.begin(), outside.end(), kReference), end; it != end; ++it)
    found.push_back(it->str());
  return found;
}

TEST(Report, FetchesNothing) {
  EXPECT_THAT(references(report_html(made_up())), ElementsAre());
  EXPECT_THAT(references("<p><a href='https://x'>"), ElementsAre("<a href='https://x'>"))
      << "the check itself must see one";
}

TEST(Report, SaysFirstWhatTheDraftIsWorthOnEachTarget) {
  const ReportData data = made_up();
  const std::string verdict = report_verdict(data.benches);
  EXPECT_THAT(verdict, HasSubstr("On the F16 model answers come "));
  EXPECT_THAT(verdict, HasSubstr("x faster, with identical output"));
  EXPECT_THAT(verdict, HasSubstr("On the Q4_1 model it does not pay"));
  EXPECT_THAT(verdict, HasSubstr("because a round costs"));
  EXPECT_THAT(verdict, HasSubstr("identical but for numeric ties"));
  EXPECT_THAT(report_html(data), HasSubstr("<p class=\"verdict\">" + html_text(verdict)));
}

TEST(Report, HoldsEveryMeasuredNumberInItsTables) {
  const ReportData data = made_up();
  const std::string page = report_html(data);
  for (const BenchResult& bench : data.benches) {
    for (const WayResult& way : bench.ways) {
      EXPECT_THAT(page, HasSubstr(fmt::format("<td>{:.1f}</td>", way.tokens_per_s)));
      if (way.draft_length == 0) continue;
      EXPECT_THAT(page, HasSubstr(fmt::format("<td>{:.2f}x</td>", *way.speedup_total)));
      EXPECT_THAT(page, HasSubstr(fmt::format("{:.2f} to {:.2f}", way.speedup->q1, way.speedup->q3)));
      EXPECT_THAT(page, HasSubstr(fmt::format("<td>{:.2f}</td>", *way.round_cost)));
      EXPECT_THAT(page, HasSubstr(fmt::format("<td>{:.0f} %", 100 * way.acceptance.back())));
    }
  }
  for (const ValidationPoint& point : data.training.validation)
    EXPECT_THAT(page, HasSubstr(fmt::format("<td>{:.4f}</td>", point.loss)));
  for (const char* text :
       {"Imaginary Processor 9000", "25", "g++ 12.2", "12.3 million", "3f1d0c", "1,400 records", "twelve minutes"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(Report, LeavesUnknownsUnknown) {
  ReportData data = made_up();
  data.machine->memory_bytes.reset();
  const std::string page = report_html(data);
  EXPECT_THAT(page, HasSubstr("<dt>memory</dt><dd>unknown</dd>"));
  EXPECT_THAT(page, HasSubstr("<td>unknown</td>")) << "the bench stage's time";
  EXPECT_THAT(page, HasSubstr("23 min 56 s in all, without the stages whose time is unknown."));
}

TEST(Report, NamesItsOwnLimits) {
  ReportData data = made_up();
  data.benches[0].prompts.resize(4);
  const std::string page = report_html(data);
  EXPECT_THAT(page, HasSubstr("Q4_1: the time limit ended the measurement after 4 of 24 prompts."));
  EXPECT_THAT(page, HasSubstr("4 prompts are few"));
  EXPECT_THAT(page, HasSubstr("F16: the draft was not made for exactly these weights"));
  EXPECT_THAT(page, HasSubstr("One answer at a time."));
}

TEST(Report, SaysAtTheTopWhenAnswersDiffer) {
  ReportData data = made_up();
  BenchResult& bench = data.benches[1];
  bench.failed = true;
  bench.ways[2].unexplained = 1;
  bench.differences.push_back({"p9", 2, 11, 5, 6, 4.5, false, "Prompt 'p9', position 11: five is not six."});
  bench.verdict = bench_verdict(bench);
  const std::string page = report_html(data);
  EXPECT_THAT(report_verdict(data.benches),
              HasSubstr("On the F16 model the answers with the draft are not the target's own"));
  EXPECT_THAT(page, HasSubstr("<span class=\"tag bad\">answers differ</span>"));
  EXPECT_THAT(page, HasSubstr("<span class=\"tag bad\">error</span>"));
  EXPECT_THAT(page, HasSubstr("five is not six"));
}

TEST(Report, EscapesEveryTextFromOutside) {
  const std::string evil = "<script>alert(1)</script><img src=x onerror='a'>\"&";
  ReportData data = made_up();
  data.title = data.notice = data.made_at = data.target_fingerprint = evil;
  data.stages[0] = {evil, evil, 1, evil};
  data.versions = data.target_facts = data.draft_facts = {{evil, evil}};
  data.limits = {evil};
  data.machine->cpu_model = data.machine->os = data.machine->kernel = evil;
  data.machine->cpu_flags = {evil};
  for (BenchResult& bench : data.benches) {
    bench.subject = {evil, evil, evil, evil, evil};
    bench.description = bench.verdict = bench.cost_sentence = bench.weight_type = evil;
    for (SampleAnswer& one : bench.samples) {
      one.prompt = one.plain_text = evil;
      one.pieces = {{evil, true}, {evil, false}};
    }
    for (Difference& one : bench.differences) one.sentence = evil;
  }
  const std::string page = report_html(data);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&#39;a&#39;&gt;&quot;&amp;"));
  EXPECT_THAT(references(page), ElementsAre());
}

TEST(Report, KeepsChartJsAndItsLicenceLine) {
  if (chart_js().empty()) GTEST_SKIP() << "this build found no Chart.js (Debian: libjs-chart.js)";
  const std::string page = report_html(made_up());
  EXPECT_THAT(page, HasSubstr("Released under the MIT License"));
  EXPECT_THAT(page, HasSubstr("id=\"chart-speed\""));
  EXPECT_GT(page.size(), 150'000u);
  EXPECT_EQ(page.find("class=\"no-charts\""), std::string::npos);
}

TEST(Report, WorksBeforeAnythingWasMeasured) {
  ReportData data;
  data.title = "A run that has only begun";
  const std::string page = report_html(data);
  EXPECT_THAT(page, HasSubstr("the bench has not run"));
  EXPECT_THAT(page, Not(HasSubstr("How much faster")));
  EXPECT_THAT(page, HasSubstr("<dd>unknown</dd>"));
}

TEST(Report, IsWrittenAsOneFile) {
  const std::string path = testing::TempDir() + "/report.html";
  auto written = write_report(real_file_system(), path, made_up());
  ASSERT_TRUE(written.ok()) << written.error().what;
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, report_html(made_up()));
}

TEST(Html, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(html_text("a\xc3\xa4 \xff z \xc3"), "a\xc3\xa4 \xEF\xBF\xBD z \xEF\xBF\xBD");
  EXPECT_EQ(html_text(std::string_view("a\0\x1b[1m\n", 7)), "a[1m\n");
}

TEST(Html, KeepsScriptsFromEndingEarly) {
  EXPECT_EQ(script_data("{\"a\":\"</script>\"}"), "{\"a\":\"\\u003c/script>\"}");
  EXPECT_EQ(script_code("x='</script>'"), "x='<\\/script>'");
}

std::string events_file(const std::string& text) {
  const std::string path = testing::TempDir() + "/events.jsonl";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(TrainingCurve, IsReadFromTheRunsEvents) {
  const std::string path = events_file(
      "{\"t\":1,\"event\":\"stage_started\",\"stage\":\"train\"}\n"
      "{\"t\":2,\"event\":\"train_step\",\"step\":1,\"loss\":4.5,\"lr\":0.0001,\"tokens_per_s\":900}\n"
      "{\"t\":3,\"event\":\"train_step\",\"step\":2,\"loss\":4.25}\n"
      "{\"t\":4,\"event\":\"validation\",\"step\":2,\"loss\":4.4,\"accuracy\":[0.3,0.2],\"acceptance_estimate\":1.36}"
      "\n");
  auto curve = read_training_curve(real_file_system(), path);
  ASSERT_TRUE(curve.ok()) << curve.error().what;
  ASSERT_EQ(curve->train.size(), 2u);
  EXPECT_EQ(curve->train[0].tokens_per_s, 900);
  EXPECT_FALSE(curve->train[1].lr.has_value());
  ASSERT_EQ(curve->validation.size(), 1u);
  EXPECT_THAT(curve->validation[0].accuracy, ElementsAre(0.3, 0.2));
  EXPECT_EQ(curve->validation[0].acceptance_estimate, 1.36);
}

TEST(TrainingCurve, CountsStepsThatAResumedRunDidAgainOnce) {
  const std::string path = events_file(
      "{\"event\":\"train_step\",\"step\":1,\"loss\":5}\n{\"event\":\"train_step\",\"step\":2,\"loss\":4}\n"
      "{\"event\":\"train_step\",\"step\":3,\"loss\":3}\n{\"event\":\"train_step\",\"step\":2,\"loss\":4.5}\n");
  auto curve = read_training_curve(real_file_system(), path);
  ASSERT_TRUE(curve.ok());
  ASSERT_EQ(curve->train.size(), 2u);
  EXPECT_EQ(curve->train[1].loss, 4.5);
}

TEST(TrainingCurve, ForgivesATornLastLineButNoOther) {
  EXPECT_TRUE(read_training_curve(real_file_system(), events_file("{\"event\":\"x\"}\n{\"event\":\"tr")).ok());
  auto damaged = read_training_curve(real_file_system(), events_file("{\"event\":\"x\"}\n{\"eve\n{\"event\":\"y\"}\n"));
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  EXPECT_THAT(damaged.error().what, HasSubstr("line 2"));
  EXPECT_EQ(read_training_curve(real_file_system(), testing::TempDir() + "/none.jsonl").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace aerie
