#include "extract/generate.h"

#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "base/log.h"
#include "base/progress.h"
#include "extract/chat.h"
#include "extract/skip_file.h"

namespace aerie {

void GenerateConfig::fields(FieldList& v) {
  v("prompts", prompts, "file with the prompts: .jsonl, or text with one prompt a line");
  v("max_tokens", max_tokens, "longest answer, in tokens").range(1, 1 << 20);
  v("temperature", temperature, "0 = always the likeliest token; above: sampled").range(0, 10);
  v("top_p", top_p, "sample from the likeliest tokens that hold this share of probability").range(0, 1);
  v("top_k", top_k, "sample from this many likeliest tokens; 0 = all").range(0, 1 << 20);
  v("seed", seed, "of sampling; every answer gets its own from this and its id");
  v("limit", limit, "ask only the first so many prompts; 0 = all").range(0, 1 << 30);
  v("time_limit_s", time_limit_s, "seconds after which no further answer is begun; 0 = none").range(0, 1e9);
  v("answers", answers, "answers to each prompt; more than one needs a temperature above 0").range(1, 1000);
  v("system", system, "system message for prompts that have none of their own");
  v("window_kb", window_kb, "prompt token ids handed to the engine at once, in kB").range(1, 1 << 20);
}

uint64_t request_seed(int64_t seed, const std::string& id) {
  return xxh3_128(as_bytes(std::to_string(seed) + "/" + id)).low;
}

namespace {

// One answer that is wanted.
struct Wanted {
  const Prompt* prompt;
  std::string id;  // of the conversation
};

// One run: what is asked, answered, left out.
class Generation {
 public:
  Generation(Target& target, const GenerateConfig& config, ConversationWriter writer, SkipFile skips,
             Progress& progress, std::stop_token stop)
      : target_(target), config_(config), writer_(std::move(writer)), skips_(std::move(skips)), progress_(progress),
        stop_(std::move(stop)) {}

  Status ask(const std::vector<Wanted>& wanted) {
    for (size_t at = 0; at < wanted.size() && !enough_.stop_requested();) {
      TRY(at, fill_window(wanted, at));
      auto done = [this](size_t index, Result<Generated> generated) { return answered(index, std::move(generated)); };
      CHECKED(target_.generate(requests_, done, stop_, enough_.get_token()));
    }
    stats.not_asked = static_cast<int64_t>(wanted.size()) - stats.answered - stats.skipped;
    return ok_status();
  }

  GenerateStats stats;
  std::string first_reason;  // of the first skipped prompt

 private:
  // Renders and tokenises prompts from `at` on until the window's bytes are used; returns where it ended.
  Result<size_t> fill_window(const std::vector<Wanted>& wanted, size_t at) {
    requests_.clear();
    asked_.clear();
    size_t bytes = 0;
    for (; at < wanted.size() && bytes < static_cast<size_t>(config_.window_kb) * 1000; ++at) {
      if (stop_.stop_requested()) return cancelled("generating was stopped");
      const auto& [prompt, id] = wanted[at];
      std::vector<Message> messages = prompt->messages;
      if (!config_.system.empty() && !messages.empty() && messages.front().role != "system")
        messages.insert(messages.begin(), {"system", config_.system});
      auto ids = prompt_ids(messages);
      if (!ids) {
        CHECKED(skip_or_fail(id, std::move(ids).error()));
        continue;
      }
      bytes += ids->size() * sizeof(int32_t);
      requests_.push_back({*std::move(ids), config_.max_tokens, config_.temperature, config_.top_p, config_.top_k,
                           request_seed(config_.seed, id)});
      asked_.push_back({id, std::move(messages)});
    }
    return at;
  }

  Result<std::vector<int32_t>> prompt_ids(const std::vector<Message>& messages) {
    TRY(const std::string text, target_.render(chat_messages(messages, messages.size()), true));
    return target_.tokenize(text, true);
  }

  Status answered(size_t index, Result<Generated> generated) {
    if (config_.time_limit_s > 0 && real_clock().monotonic_s() - began_s_ > config_.time_limit_s) enough_.request_stop();
    const std::string& id = asked_[index].id;
    if (generated && generated->ids.empty()) generated = invalid("the context has no room for an answer");
    if (!generated) return skip_or_fail(id, std::move(generated).error());
    Conversation conversation;
    conversation.id = id;
    conversation.messages = std::move(asked_[index].messages);
    conversation.token_ids = requests_[index].prompt_ids;  // copied: the engine may still hold the requests
    const auto begin = static_cast<int64_t>(conversation.token_ids.size());
    conversation.token_ids.insert(conversation.token_ids.end(), generated->ids.begin(), generated->ids.end());
    conversation.loss_spans = {{begin, static_cast<int64_t>(conversation.token_ids.size())}};
    conversation.finish_reason = generated->stopped ? "stop" : "length";
    conversation.target_fingerprint = target_.facts().weights_fingerprint;
    // The end-of-turn token is the template's, not the answer's text.
    const std::span<const int32_t> said(generated->ids.data(), generated->ids.size() - (generated->stopped ? 1 : 0));
    TRY(std::string text, target_.detokenize(said));
    conversation.messages.push_back({"assistant", std::move(text)});
    CHECKED(writer_.add(conversation));
    ++stats.answered;
    stats.ended += generated->stopped ? 1 : 0;
    stats.answer_tokens += static_cast<int64_t>(generated->ids.size());
    progress_.advance(1, static_cast<int64_t>(generated->ids.size()));
    return ok_status();
  }

  Status skip_or_fail(const std::string& id, Error error) {
    if (error.code != Code::kInvalid) return std::move(error).under("prompt " + id);
    CHECKED(skips_.add("generate", id, error.what));
    log_warning("prompt_skipped", "prompt " + id + " is left out: " + error.what, {{"id", id}});
    if (first_reason.empty()) first_reason = id + ": " + error.what;
    ++stats.skipped;
    return ok_status();
  }

  struct Asked {
    std::string id;
    std::vector<Message> messages;  // with the system message
  };

  Target& target_;
  const GenerateConfig& config_;
  ConversationWriter writer_;
  SkipFile skips_;
  Progress& progress_;
  std::stop_token stop_;
  std::stop_source enough_;  // asked to stop when the time limit is over
  const double began_s_ = real_clock().monotonic_s();
  std::vector<GenerateRequest> requests_;
  std::vector<Asked> asked_;  // beside requests_
};

// The answers that are not there yet, first answers first; an answer of another target is an error, as two targets must
// never mix in one file.
Result<std::vector<Wanted>> unanswered(const std::vector<Prompt>& prompts, size_t limit, int answers,
                                       const ConversationWriter& writer, const std::string& fingerprint,
                                       const std::string& output) {
  std::vector<Wanted> left;
  for (size_t i = 0; i < limit * static_cast<size_t>(answers); ++i) {
    const Prompt& prompt = prompts[i % limit];
    std::string id = answer_id(prompt.id, static_cast<int>(i / limit) + 1);
    const auto there = writer.present().find(id);
    if (there == writer.present().end()) {
      left.push_back({&prompt, std::move(id)});
    } else if (there->second != fingerprint) {
      return invalid(output + ": \"" + id + "\" was answered by the target " +
                     (there->second.empty() ? "(unknown)" : there->second) + ", but this one is " + fingerprint +
                     "; name another output file");
    }
  }
  return left;
}

}  // namespace

Result<GenerateStats> generate(Target& target, const std::vector<Prompt>& prompts, const GenerateConfig& config,
                               const std::string& output, RunFolder& run, std::stop_token stop, FileSystem& fs) {
  const TargetFacts& facts = target.facts();
  if (facts.chat_template.empty())
    return invalid("the model " + facts.name + " (" + facts.model_path +
                   ") has no chat template, so it cannot answer prompts; use an instruct model");
  if (config.answers > 1 && config.temperature == 0)
    return invalid("generate.answers is " + std::to_string(config.answers) +
                   ", and at temperature 0 all answers to a prompt are the same: set generate.temperature");
  const double start_s = real_clock().monotonic_s();
  size_t limit = prompts.size();
  if (config.limit > 0) limit = std::min(limit, static_cast<size_t>(config.limit));
  TRY(ConversationWriter writer, ConversationWriter::open(fs, output));
  TRY(const auto left, unanswered(prompts, limit, config.answers, writer, facts.weights_fingerprint, output));
  TRY(SkipFile skips, SkipFile::open(fs, run.file("skipped.jsonl")));
  const auto total = static_cast<int64_t>(limit) * config.answers;
  const int64_t before = total - static_cast<int64_t>(left.size());
  CHECKED(run.event("generate_started", {{"prompts", limit}, {"answers", total}, {"already_there", before},
                                         {"output", output}, {"target", facts.weights_fingerprint}}));

  Progress progress({"generate", "answers", total, before, "tokens", config.time_limit_s}, &run);
  Generation work(target, config, std::move(writer), std::move(skips), progress, stop);
  Status asked = work.ask(left);
  GenerateStats& stats = work.stats;
  stats.wanted = total;
  stats.already_there = before;
  stats.seconds = real_clock().monotonic_s() - start_s;
  std::string counts = std::to_string(stats.answered) + " answered, " + std::to_string(stats.skipped) + " left out, " +
                       std::to_string(before) + " were there";
  if (stats.not_asked > 0)
    counts += ", " + std::to_string(stats.not_asked) + " not asked because generate.time_limit_s was over";
  const Status told = run.event(asked ? "generate_done" : "generate_failed",
                                {{"answered", stats.answered}, {"skipped", stats.skipped}, {"already_there", before},
                                 {"not_asked", stats.not_asked}, {"ended", stats.ended}, {"answer_tokens", stats.answer_tokens},
                                 {"seconds", stats.seconds}, {"error", asked ? "" : asked.error().what}});
  if (!asked) return std::move(asked).error().under("generating answers (" + counts + ")");
  CHECKED(told);
  if (stats.answered + before == 0 && stats.skipped > 0)
    return invalid("none of the " + std::to_string(limit) + " prompts could be answered; the first, " + work.first_reason);
  progress.finish(counts);
  return stats;
}

}  // namespace aerie
