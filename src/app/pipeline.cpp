#include "app/pipeline.h"

#include <algorithm>

#include "app/make_draft.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "samples/samples.h"

namespace aerie {
namespace {

std::string count_text(int64_t count, const char* what) { return std::to_string(count) + " " + what; }

// An input that is named, not found in the run folder, decides the result as any setting does.
std::string given(const std::string& key, const std::string& path) {
  return path.empty() ? "" : key + " = " + path + "\n";
}

}  // namespace

Result<Target*> Pipeline::open() {
  if (!target_) {
    if (settings_.target.model.empty())
      return invalid("no target is named: give --model FILE.gguf, or set target.model in the settings file");
    TRY(target_, open_target(settings_.target, run_.path()));
  }
  return target_.get();
}

std::vector<Stage> Pipeline::stages() {
  const auto run = [this](Result<StageOutcome> (Pipeline::*method)(std::stop_token)) {
    return [this, method](std::stop_token stop) { return (this->*method)(stop); };
  };
  const RunSettings& paths = settings_.run;
  const bool asks = !settings_.generate.prompts.empty(), benches = !settings_.bench_prompts().empty();
  std::vector<Stage> stages;
  if (asks)
    stages.push_back({.name = "generate", .purpose = "asks the target to answer the prompts",
                      .settings = settings_.lines_of({"target", "generate"}), .work = {paths.conversations_path()},
                      .run = run(&Pipeline::do_generate), .how_much = settings_.amount_lines_of({"generate"}),
                      .grows = true});
  // More conversations, or those of another file, join the samples that are there.
  stages.push_back({.name = "extract", .purpose = "reads the target's hidden states for every conversation",
                    .settings = settings_.lines_of({"target", "extract"}), .work = {paths.store_path()},
                    .run = run(&Pipeline::do_extract), .after = asks ? "generate" : "",
                    .how_much = conversations_line(), .grows = true});
  stages.push_back({.name = "train", .purpose = "teaches the draft to guess what the target says next",
                    .settings = settings_.lines_of({"train"}) + given("run.store", paths.store),
                    .work = {run_.file("checkpoints")}, .run = run(&Pipeline::do_train), .after = "extract"});
  stages.push_back({.name = "export", .purpose = "writes the draft for the engines that will serve it, and reads it back",
                    .settings = settings_.lines_of({"export"}) + given("run.checkpoint", paths.checkpoint),
                    .work = {run_.file("draft")}, .run = run(&Pipeline::do_export),
                    .after = paths.checkpoint.empty() ? "train" : ""});
  if (benches)
    stages.push_back({.name = "bench", .purpose = "asks held-out prompts with and without the draft",
                      .settings = settings_.lines_of({"target", "bench"}) + given("run.draft", paths.draft),
                      .work = {run_.file("bench")}, .run = run(&Pipeline::do_bench),
                      .after = paths.draft.empty() ? "export" : ""});
  stages.push_back({.name = "report", .purpose = "writes one page about all of it", .work = {run_.file("report.html")},
                    .run = run(&Pipeline::do_report), .always = true});
  return stages;
}

// A file of conversations that somebody else writes may have grown since.
std::string Pipeline::conversations_line() const {
  const std::string& path = settings_.run.conversations;
  if (path.empty()) return "";
  const auto info = fs_.info(path);
  return given("run.conversations", path + (info ? " (" + std::to_string(info->size_bytes) + " bytes)" : ""));
}

Result<StageOutcome> Pipeline::do_generate(std::stop_token stop) {
  TRY(const std::vector<Prompt> prompts, load_prompts(fs_, settings_.generate.prompts));
  TRY(Target * target, open());
  const std::string output = settings_.run.conversations_path();
  TRY(const GenerateStats stats, generate(*target, prompts, settings_.generate, output, run_, stop));
  const int64_t answers = stats.answered + stats.already_there;
  std::string sentence = count_text(answers, "answers");
  if (stats.not_asked > 0) sentence += ", " + count_text(stats.not_asked, "not asked for lack of time");
  if (stats.skipped > 0) sentence += ", " + count_text(stats.skipped, "prompts skipped (skipped.jsonl says why)");
  return StageOutcome{.sentence = sentence, .outputs = {output},
                      .facts = {{"answers", answers}, {"skipped", stats.skipped}, {"answer_tokens", stats.answer_tokens}},
                      .more = stats.not_asked > 0, .nothing_new = stats.answered == 0};
}

Result<StageOutcome> Pipeline::do_extract(std::stop_token stop) {
  TRY(Target * target, open());
  ExtractConfig config = settings_.extract;
  config.conversations = settings_.run.conversations_path();
  config.store = settings_.run.store_path();
  // A conversation that does not fit the target's context is cut there, not left out: the last token of an answer that
  // filled the context has no room of its own.
  config.max_length = std::min(config.max_length, settings_.target.context);
  TRY(const ExtractStats stats, extract(*target, config, settings_.store, run_, stop));
  target_.reset();
  const int64_t samples = stats.stored + stats.already_there;
  std::string sentence = count_text(samples, "samples in ") + config.store;
  const int64_t skipped = stats.skipped + stats.skipped_before;
  if (skipped > 0) sentence += ", " + count_text(skipped, "skipped (skipped.jsonl in the store says why)");
  return StageOutcome{.sentence = sentence, .outputs = {config.store + "/store.json"},
                      .facts = {{"samples", samples}, {"skipped", skipped}, {"tokens", stats.tokens}},
                      .nothing_new = stats.stored == 0};
}

Result<StageOutcome> Pipeline::do_train(std::stop_token stop) {
  target_.reset();
  return make_draft(settings_, run_, stop);
}

Result<StageOutcome> Pipeline::do_export(std::stop_token stop) { return export_draft(fs_, settings_, run_, stop); }

Result<StageOutcome> Pipeline::do_bench(std::stop_token stop) {
  target_.reset();
  return bench_draft(fs_, settings_, run_, stop);
}

Result<StageOutcome> Pipeline::do_report(std::stop_token) { return report_run(fs_, settings_, run_); }

}  // namespace aerie
