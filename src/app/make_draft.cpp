#include "app/make_draft.h"

#if defined(AERIE_HAVE_TRAIN) && defined(AERIE_HAVE_BENCH)

#include <algorithm>
#include <cmath>

#include "app/data.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "bench/report.h"
#include "draft/export.h"
#include "draft/load.h"
#ifdef AERIE_HAVE_LLAMA
#include "target/llama/dequantize.h"
#endif

namespace aerie {
namespace {

constexpr size_t kCheckedTokens = 192;  // of one stored sample: enough to catch any wrong tensor, cheap in plain loops
constexpr int kCheckedSteps = 3;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

Result<std::string> checkpoint_path(FileSystem& fs, const Settings& settings, const RunFolder& run) {
  if (!settings.run.checkpoint.empty()) return settings.run.checkpoint;
  TRY(const auto record, read_stage_record(fs, run, "train"));
  if (!record || record->state != "done" || record->outputs.empty())
    return not_found("no trained draft in " + run.path() + ": run the train stage first, or name one in run.checkpoint");
  return record->outputs.front();
}

Result<Checkpoint> trained_draft(FileSystem& fs, const Settings& settings, const RunFolder& run) {
  TRY(const std::string path, checkpoint_path(fs, settings, run));
  return read_checkpoint(path);
}

// A stretch of the first stored sample that has enough tokens, with the target's embeddings.
Result<ExportSample> sample_for_check(FileSystem& fs, const std::string& store_path) {
  TRY(const std::unique_ptr<StoreReader> store, StoreReader::open(fs, store_path));
  if (store->samples().empty()) return invalid("store " + store_path + " holds no sample to check the export on");
  const auto longest = std::max_element(store->samples().begin(), store->samples().end(),
                                        [](const auto& a, const auto& b) { return a.token_count < b.token_count; });
  TRY(Sample sample, store->read(static_cast<size_t>(longest - store->samples().begin())));
  TRY(StoredHead head, read_target_head(fs, store_path));
  const size_t tokens = std::min(sample.input_ids.size(), kCheckedTokens);
  const size_t width = sample.aux.size() / sample.input_ids.size();
  sample.input_ids.resize(tokens);
  sample.aux.resize(tokens * width);
  return ExportSample{std::move(sample.input_ids), std::move(sample.aux),
                      head.embeddings.empty() ? std::move(head.lm_head) : std::move(head.embeddings), kCheckedSteps};
}

Result<ExportReport> export_one(FileSystem& fs, const Checkpoint& checkpoint, const std::string& flavor,
                                const Settings& settings, const std::string& folder, ExportOptions options,
                                const ExportSample& sample) {
  if (flavor == "gguf") {
    if (settings.target.model.empty()) return invalid("a GGUF draft takes its tokenizer from the target: give --model FILE.gguf");
    TRY(const TargetFacts facts, read_target_facts(settings.target.model));
    CHECKED(check_target(checkpoint, "in " + settings.run.folder, target_fingerprint(facts, checkpoint.boundaries), facts.name));
    TRY(options.type, weight_type_named(settings.exports.gguf_type));
    return export_gguf(fs, checkpoint, settings.target.model, folder + "/draft.gguf", options);
  }
  TRY(options.type, weight_type_named(settings.exports.type));
  TRY(const Flavor kind, flavor_named(flavor));
  const bool needs_embeddings = kind == Flavor::kSpeculators;
  return export_hf(fs, checkpoint, kind, folder + "/" + flavor, options,
                   needs_embeddings ? std::span<const float>(sample.embeddings) : std::span<const float>());
}

Result<BenchResult> bench_one(FileSystem& fs, const Settings& settings, const std::string& weight_type, RunFolder& run,
                              std::stop_token stop) {
  TRY(const std::vector<Prompt> prompts, load_prompts(fs, settings.bench.prompts));
  BenchSubject subject;
  subject.target = settings.target.model;
  subject.draft = settings.run.draft_path();
  if (!weight_type.empty()) {
#ifdef AERIE_HAVE_LLAMA
    subject.label = weight_type;
    subject.other_weights = true;
    subject.note = "the same weights, written as " + weight_type;
    TRY(subject.target, unpacked_copy(fs, settings.target.model, weight_type, run.path()));
#endif
  }
  return bench(subject, prompts, settings.bench, run, stop);
}

std::vector<BenchResult> results_of(FileSystem& fs, const RunFolder& run) {
  std::vector<BenchResult> results;
  const auto labels = fs.list(run.file("bench"));
  if (!labels) return results;
  for (const std::string& label : *labels) {
    auto result = read_results(fs, run.file("bench/" + label + "/results.json"));
    if (result)
      results.push_back(*std::move(result));
    else
      log_warning("results_unreadable", result.error().what);
  }
  // The target as it was given stands first, copies of its weights behind.
  std::stable_sort(results.begin(), results.end(),
                   [](const auto& a, const auto& b) { return a.subject.note.size() < b.subject.note.size(); });
  return results;
}

std::string boundaries_text(const std::vector<int>& boundaries) {
  std::vector<std::string> parts;
  for (int boundary : boundaries) parts.push_back(std::to_string(boundary));
  return join(parts, ", ");
}

void add_target_facts(FileSystem& fs, const std::string& store_path, ReportData& data) {
  const auto store = StoreReader::open(fs, store_path);
  if (!store) {
    log_warning("store_unreadable", "the report goes without the target's facts: " + store.error().what);
    return;
  }
  const StoreHeader& header = (*store)->header();
  int64_t tokens = 0;
  for (const SampleInfo& sample : (*store)->samples()) tokens += sample.token_count;
  data.title = header.target_name + " with an EAGLE-3 draft";
  data.target_fingerprint = header.target_fingerprint;
  data.target_facts = {{"model", header.target_name},
                       {"architecture", header.architecture},
                       {"layers", std::to_string(header.layer_count)},
                       {"hidden size", std::to_string(header.hidden_size)},
                       {"vocabulary", std::to_string(header.vocab_size)},
                       {"weights", header.weight_type},
                       {"hidden states taken before layers", boundaries_text(header.boundaries)},
                       {"conversations stored", std::to_string((*store)->samples().size())},
                       {"tokens stored", std::to_string(tokens)}};
}

void add_draft_facts(FileSystem& fs, const Settings& settings, const RunFolder& run, ReportData& data) {
  const auto checkpoint = trained_draft(fs, settings, run);
  if (!checkpoint) {
    log_warning("draft_unreadable", "the report goes without the draft's facts: " + checkpoint.error().what);
    return;
  }
  int64_t weights = 0;
  for (const Tensor& tensor : checkpoint->tensors)
    if (tensor.name != "d2t") weights += static_cast<int64_t>(tensor.bytes.size() / size_of(tensor.dtype));
  data.draft_facts = {{"trained weights", fixed(static_cast<double>(weights) / 1e6, 1) + " million"},
                      {"draft vocabulary", std::to_string(checkpoint->shape.draft_vocab_size)},
                      {"training steps", std::to_string(checkpoint->step)},
                      {"steps of training-time test", std::to_string(checkpoint->ttt_steps)}};
}

}  // namespace

Result<StageOutcome> make_draft(const Settings& settings, RunFolder& run, std::stop_token stop) {
  TRY(const TrainResult result, train(settings.run.store_path(), settings.train, run, stop));
  StageOutcome outcome;
  outcome.sentence =
      std::to_string(result.steps) + " steps; " +
      (result.acceptance_estimate
           ? "the draft is expected to make " + fixed(*result.acceptance_estimate, 2) + " tokens a round"
           : "what the draft will bring was not measured (no validation samples)") +
      (result.vocabulary_coverage ? "; its vocabulary covers " + percent(*result.vocabulary_coverage) + " of the answers"
                                  : "");
  outcome.outputs = {result.best_checkpoint, result.last_checkpoint};
  outcome.facts = {{"steps", result.steps}};
  const auto add_known = [&](const char* name, std::optional<double> value) {
    if (value) outcome.facts.emplace_back(name, *value);
  };
  add_known("train_loss", result.train_loss);
  add_known("validation_loss", result.validation_loss);
  add_known("acceptance_estimate", result.acceptance_estimate);
  add_known("vocabulary_coverage", result.vocabulary_coverage);
  return outcome;
}

Result<StageOutcome> export_draft(FileSystem& fs, const Settings& settings, RunFolder& run, std::stop_token stop) {
  TRY(const Checkpoint checkpoint, trained_draft(fs, settings, run));
  TRY(const ExportSample sample, sample_for_check(fs, settings.run.store_path()));
  ExportOptions options;
  options.overwrite = true;  // an export of the run folder that was cut short is made again
  {
    TRY(const std::unique_ptr<StoreReader> store, StoreReader::open(fs, settings.run.store_path()));
    options.facts_json = store->header().facts_json;
  }
  const std::string folder = run.file("draft");
  CHECKED(fs.make_folders(folder));
  StageOutcome outcome;
  std::vector<std::string> names;
  double worst = 0;
  for (const std::string& flavor : settings.exports.flavors) {
    if (stop.stop_requested()) return cancelled("exporting was stopped before " + flavor);
    TRY(const ExportReport report, export_one(fs, checkpoint, flavor, settings, folder, options, sample));
    TRY(const ExportCheck check, check_export(checkpoint, report.path, sample));
    if (!report.note.empty()) log_info("export_note", flavor + ": " + report.note);
    CHECKED(run.event("export", {{"flavor", flavor}, {"path", report.path}, {"size_bytes", report.size_bytes},
                                 {"worst_weight", check.worst_weight}, {"worst_logit", check.worst_logit},
                                 {"argmax_agreement", check.argmax_agreement}}));
    worst = std::max(worst, check.worst_logit);
    outcome.outputs.push_back(report.path);
    names.push_back(flavor);
  }
  outcome.sentence = join(names, ", ") + " in " + folder + "; read back, logits within " + fixed(100 * worst, 3) +
                     " % of the trainer's";
  outcome.facts = {{"worst_logit", worst}};
  return outcome;
}

Result<StageOutcome> bench_draft(FileSystem& fs, const Settings& settings, RunFolder& run, std::stop_token stop) {
  std::vector<std::string> types = {""};
  types.insert(types.end(), settings.bench.copies.begin(), settings.bench.copies.end());
  StageOutcome outcome;
  std::string own_type;  // of the target as it is
  for (const std::string& type : types) {
    if (!type.empty() && type == own_type) {
      log_info("copy_left_out", "bench.copies: the target's weights are " + type + " already");
      continue;
    }
    TRY(const BenchResult result, bench_one(fs, settings, type, run, stop));
    std::fputs((bench_table(result) + "\n").c_str(), stdout);
    if (result.failed) return internal(result.verdict);
    if (type.empty()) own_type = result.weight_type;
    if (!outcome.sentence.empty()) outcome.sentence += " ";
    outcome.sentence += result.verdict;
    outcome.outputs.push_back(run.file("bench/" + result.subject.label + "/results.json"));
    if (const WayResult* best = result.best())
      outcome.facts.push_back({"speedup_" + result.subject.label, best->speedup_total.value_or(std::nan(""))});
  }
  return outcome;
}

Result<StageOutcome> report_run(FileSystem& fs, const Settings& settings, RunFolder& run) {
  ReportData data;
  data.title = "A draft for " + name_of(settings.target.model);
  data.made_at = utc_text(real_clock().wall_s());
  for (const auto& [name, purpose] : {std::pair{"generate", "asks the target to answer the prompts"},
                                      std::pair{"extract", "reads the target's hidden states for every conversation"},
                                      std::pair{"train", "teaches the draft to guess what the target says next"},
                                      std::pair{"export", "writes the draft for the engines that will serve it"},
                                      std::pair{"bench", "asks held-out prompts with and without the draft"}}) {
    TRY(const auto record, read_stage_record(fs, run, name));
    if (record) data.stages.push_back({name, purpose, record->seconds, record->sentence});
  }
  auto curve = read_training_curve(fs, run.file("events.jsonl"));
  if (curve)
    data.training = *std::move(curve);
  else
    log_warning("curve_unreadable", "the report goes without the training curve: " + curve.error().what);
  data.benches = results_of(fs, run);
  data.machine = read_machine();
  data.versions = {{"aerie", version_text()}, {"libraries", libraries_text()}};
  add_target_facts(fs, settings.run.store_path(), data);
  add_draft_facts(fs, settings, run, data);
  const std::string path = run.file("report.html");
  CHECKED(write_report(fs, path, data));
  return StageOutcome{path, {path}, {}};
}

}  // namespace aerie

#else

namespace aerie {

namespace {

Error needs_torch(const std::string& stage) {
  return invalid(stage + " needs LibTorch, and this binary was built without it: run scripts/bootstrap and build again");
}

}  // namespace

Result<StageOutcome> make_draft(const Settings&, RunFolder&, std::stop_token) { return needs_torch("train"); }
Result<StageOutcome> export_draft(FileSystem&, const Settings&, RunFolder&, std::stop_token) { return needs_torch("export"); }
Result<StageOutcome> bench_draft(FileSystem&, const Settings&, RunFolder&, std::stop_token) { return needs_torch("bench"); }
Result<StageOutcome> report_run(FileSystem&, const Settings&, RunFolder&) { return needs_torch("report"); }

}  // namespace aerie

#endif
