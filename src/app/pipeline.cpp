#include "app/pipeline.h"

#include "app/make_draft.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "samples/samples.h"

namespace aerie {
namespace {

std::string count_text(int64_t count, const char* what) { return std::to_string(count) + " " + what; }

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
  std::vector<Stage> stages;
  if (!settings_.generate.prompts.empty())
    stages.push_back({"generate", "asks the target to answer the prompts", settings_.lines_of({"target", "generate"}),
                      {"conversations.jsonl"}, run(&Pipeline::do_generate)});
  stages.push_back({"extract", "reads the target's hidden states for every conversation",
                    settings_.lines_of({"target", "extract"}), {"store"}, run(&Pipeline::do_extract)});
  stages.push_back({"train", "teaches the draft to guess what the target says next", settings_.lines_of({"train"}),
                    {"checkpoints"}, run(&Pipeline::do_train)});
  stages.push_back({"export", "writes the draft for the engines that will serve it, and reads it back",
                    settings_.lines_of({"export"}), {"draft"}, run(&Pipeline::do_export)});
  if (!settings_.bench_prompts().empty())
    stages.push_back({"bench", "asks held-out prompts with and without the draft", settings_.lines_of({"target", "bench"}),
                      {"bench"}, run(&Pipeline::do_bench)});
  stages.push_back({"report", "writes one page about all of it", "", {"report.html"}, run(&Pipeline::do_report), true});
  return stages;
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
  return StageOutcome{sentence, {output},
                      {{"answers", answers}, {"skipped", stats.skipped}, {"answer_tokens", stats.answer_tokens}}};
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
  if (stats.skipped > 0) sentence += ", " + count_text(stats.skipped, "skipped (skipped.jsonl in the store says why)");
  return StageOutcome{sentence, {config.store + "/store.json"},
                      {{"samples", samples}, {"skipped", stats.skipped}, {"tokens", stats.tokens}}};
}

Result<StageOutcome> Pipeline::do_train(std::stop_token stop) {
  target_.reset();
  return make_draft(settings_, run_, stop);
}

Result<StageOutcome> Pipeline::do_export(std::stop_token) { return export_draft(fs_, settings_, run_); }

Result<StageOutcome> Pipeline::do_bench(std::stop_token stop) {
  target_.reset();
  return bench_draft(fs_, settings_, run_, stop);
}

Result<StageOutcome> Pipeline::do_report(std::stop_token) { return report_run(fs_, settings_, run_); }

}  // namespace aerie
