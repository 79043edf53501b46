// The bench on a real model: prompts rendered by the target, measured by the decoder, texts made readable again.
#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "target/target.h"

namespace aerie {

void BenchConfig::fields(FieldList& v) {
  v("prompts", prompts, "file of held-out prompts (JSONL or text), never trained on");
  v("count", count, "prompts to measure, spread evenly over the file; 0 = all").range(0, 1e6);
  v("max_tokens", max_tokens, "most tokens of one answer").range(2, 1e6);
  v("draft_lengths", draft_lengths, "lengths of the drafted chain to try");
  v("p_min", p_min, "a chain ends before a token the draft finds less probable than this").range(0, 1);
  v("temperature", temperature, "0 = greedy, the only setting in which a difference can be judged").range(0, 10);
  v("top_p", top_p, "keep the most probable tokens up to this share").range(0, 1);
  v("top_k", top_k, "keep this many tokens; 0 = all").range(0, 1e6);
  v("seed", seed, "of the draws; the same for every way of decoding");
  v("repeats", repeats, "runs of each prompt and way; the one with the median time counts").range(1, 100);
  v("time_limit_s", time_limit_s, "no new prompt is begun after this; 0 = none").range(0, 1e7);
  v("context", context, "tokens of prompt and answer together").range(16, 1e7);
  v("batch", batch, "rows of one prefill pass").range(1, 1e5);
  v("threads", threads, "0 = all cores").range(0, 4096);
  v("kv_type", kv_type, "type of the target's key-value cache").one_of({"f16", "f32", "q8_0"});
  v("flash_attention", flash_attention, "attention without the score matrix");
  v("tie_gap", tie_gap, "top-2 logit gap that counts as a numeric tie; 0 = by the noise seen, limited by weight type")
      .range(0, 100);
  v("sample_count", sample_count, "answers kept as text for the report").range(0, 100);
  v("copies", copies, "also measures copies of the target whose weights are written in these types")
      .one_of({"F16", "F32"});
  v("other_weights", other_weights,
    "also measures with weights that the draft was not trained for, such as another quantisation of its target");
}

#if defined(AERIE_HAVE_DRAFT) && defined(AERIE_HAVE_LLAMA)
namespace {

struct Rendered {
  TargetFacts facts;
  std::vector<BenchPrompt> prompts;
};

TargetConfig target_config(const BenchSubject& subject, const BenchConfig& config) {
  TargetConfig target;
  target.model = subject.target;
  target.context = 512;  // it only tokenises here
  target.batch = 512;
  target.threads = config.threads;
  target.parallel = 1;
  return target;
}

std::string text_of(const Prompt& prompt) {
  std::string text;
  for (const Message& message : prompt.messages) {
    if (prompt.messages.size() > 1) text += (text.empty() ? "" : "\n\n") + message.role + ": ";
    text += message.content;
  }
  return text;
}

// The target is open for this alone: two copies of a large model need not stand in memory while it is measured.
Result<Rendered> render(const BenchSubject& subject, const std::vector<Prompt>& prompts, const BenchConfig& config) {
  TRY(const auto target, open_target(target_config(subject, config)));
  Rendered rendered;
  rendered.facts = target->facts();
  const size_t wanted = config.count > 0 ? std::min(static_cast<size_t>(config.count), prompts.size()) : prompts.size();
  for (size_t i = 0; i < wanted; ++i) {
    const Prompt& prompt = prompts[i * prompts.size() / wanted];
    std::vector<ChatMessage> messages;
    for (const Message& message : prompt.messages) messages.push_back({message.role, message.content});
    auto text = target->render(messages, true);
    if (!text) return std::move(text).error().under(fmt::format("bench, prompt '{}'", prompt.id));
    auto ids = target->tokenize(*text, true);
    if (!ids) return std::move(ids).error().under(fmt::format("bench, prompt '{}'", prompt.id));
    if (ids->size() + static_cast<size_t>(config.max_tokens) > static_cast<size_t>(config.context)) {
      log_warning(
          "bench_prompt_skipped",
          fmt::format("bench: prompt '{}' is left out: its {} tokens and an answer of {} do not fit bench.context = {}",
                      prompt.id, ids->size(), config.max_tokens, config.context),
          {{"prompt", prompt.id}, {"tokens", static_cast<int64_t>(ids->size())}});
      continue;
    }
    rendered.prompts.push_back({prompt.id, text_of(prompt), *std::move(ids)});
  }
  if (rendered.prompts.empty()) {
    return invalid(fmt::format("bench: none of {} prompts fits bench.context = {} with an answer of {} tokens", wanted,
                               config.context, config.max_tokens));
  }
  return rendered;
}

DecoderConfig decoder_config(const BenchSubject& subject, const BenchConfig& config) {
  DecoderConfig decoder;
  decoder.target = subject.target;
  decoder.draft = subject.draft;
  decoder.target_fingerprint = subject.target_fingerprint;
  decoder.context = config.context;
  decoder.batch = config.batch;
  decoder.threads = config.threads;
  decoder.kv_type = config.kv_type;
  decoder.flash_attention = config.flash_attention;
  return decoder;
}

Result<Measured> measure_models(const BenchSubject& subject, const Rendered& rendered, const BenchConfig& config,
                                RunFolder& run, std::stop_token stop) {
  TRY(const auto decoder, SpeculativeDecoder::open(decoder_config(subject, config)));
  std::vector<int> lengths = config.draft_lengths;
  std::sort(lengths.begin(), lengths.end());
  const auto ways = std::unique(lengths.begin(), lengths.end()) - lengths.begin() + 1;
  ProgressOptions options;
  options.stage = "bench " + subject.label;
  options.unit = "answers";
  options.second_unit = "tokens";
  options.total = static_cast<int64_t>(rendered.prompts.size()) * ways * std::max(config.repeats, 1);
  options.ends_in_s = config.time_limit_s;
  Progress progress(options, &run);

  BenchEngine engine;
  engine.decode = [&](const DecodeRequest& request, std::stop_token token) { return decoder->decode(request, token); };
  engine.on_answer = [&](const BenchPrompt&, const DecodeRequest& request, const Decoded& answer) {
    progress.facts({{"draft_length", request.draft_length}, {"tokens_per_round", answer.acceptance_length()}});
    progress.advance(1, static_cast<int64_t>(answer.ids.size()));
  };
  engine.now_s = [] { return real_clock().monotonic_s(); };
  TRY(Measured measured, measure(rendered.prompts, config, rendered.facts.weight_type, engine, stop));
  measured.result.description = decoder->description();
  progress.finish(measured.result.verdict);
  return measured;
}

// The texts of the kept answers, at the draft length that turned out best.
Status add_samples(const BenchSubject& subject, const Rendered& rendered, const BenchConfig& config,
                   Measured& measured) {
  if (measured.kept.empty() || !measured.result.best_draft_length) return ok_status();
  TRY(const auto target, open_target(target_config(subject, config)));
  const int best = *measured.result.best_draft_length;
  for (const KeptAnswer& kept : measured.kept) {
    for (const auto& [draft_length, answer] : kept.speculative) {
      if (draft_length != best) continue;
      SampleAnswer sample;
      sample.prompt_id = rendered.prompts[kept.prompt].id;
      sample.prompt = rendered.prompts[kept.prompt].text;
      TRY(sample.plain_text, target->detokenize(kept.plain.ids));
      sample.draft_length = draft_length;
      sample.pieces = answer_pieces(answer, [&](std::span<const int32_t> ids) { return target->detokenize(ids); });
      sample.equal = answer.ids == kept.plain.ids;
      sample.tokens = static_cast<int64_t>(answer.ids.size());
      sample.rounds = static_cast<int64_t>(answer.accepted.size());
      if (answer.decode_s() > 0 && kept.plain.decode_s() > 0) {
        sample.speedup = static_cast<double>(answer.ids.size()) / answer.decode_s() /
                         (static_cast<double>(kept.plain.ids.size()) / kept.plain.decode_s());
      }
      measured.result.samples.push_back(std::move(sample));
    }
  }
  return ok_status();
}

Status record(const BenchResult& result, RunFolder& run) {
  const std::string folder = run.file("bench/" + result.subject.label);
  CHECKED(real_file_system().make_folders(folder));
  CHECKED(write_file_atomically(real_file_system(), folder + "/results.json", results_json(result)));
  Fields fields = {{"label", result.subject.label}, {"failed", result.failed}, {"verdict", result.verdict}};
  if (const WayResult* best = result.best(); best && best->speedup_total) {
    fields.emplace_back("best_draft_length", best->draft_length);
    fields.emplace_back("acceptance_length", best->acceptance_length);
    fields.emplace_back("speedup", *best->speedup_total);
  }
  return run.event("bench_result", fields);
}

// Of the target as it stands on the disk now; empty when the draft need not have been made for it.
Result<std::string> fingerprint_to_compare(const BenchSubject& subject, const BenchConfig& config) {
  if (subject.other_weights || config.other_weights) return std::string();
  TRY(DraftBinding binding, draft_binding(subject.target, subject.draft));
  if (binding.draft_is_bound) return std::move(binding.target_fingerprint);
  log_warning("draft_unbound", "the draft " + subject.draft + " does not say which target it was made for; its sizes and "
              "tokens are compared, and its acceptance will tell the rest");
  return std::string();
}

// A label names a folder.
std::string safe_label(std::string label) {
  for (char& c : label) {
    const bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!fine) c = '_';
  }
  return label;
}

}  // namespace

Result<BenchResult> bench(const BenchSubject& subject, const std::vector<Prompt>& prompts, const BenchConfig& config,
                          RunFolder& run, std::stop_token stop) {
  if (prompts.empty()) return invalid("bench: no prompts; name a file of held-out prompts in bench.prompts");
  BenchSubject named = subject;
  TRY(named.target_fingerprint, fingerprint_to_compare(subject, config));
  CHECKED(check_draft_fits(named.target, named.draft, named.target_fingerprint));
  TRY(const Rendered rendered, render(subject, prompts, config));
  named.label = safe_label(subject.label.empty() ? rendered.facts.weight_type : subject.label);
  TRY(Measured measured, measure_models(named, rendered, config, run, stop));
  measured.result.subject = named;
  measured.result.made_at = utc_text(real_clock().wall_s());
  CHECKED(add_samples(named, rendered, config, measured));
  CHECKED(record(measured.result, run));
  return std::move(measured.result);
}

#else

Result<BenchResult> bench(const BenchSubject&, const std::vector<Prompt>&, const BenchConfig&, RunFolder&,
                          std::stop_token) {
  return invalid(
      "bench: this binary was built without LibTorch or llama.cpp, which decode with a draft; see 'aerie info'");
}

#endif

}  // namespace aerie
