#include "extract/extract.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <unordered_set>

#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "extract/chat.h"
#include "extract/store_thread.h"
#include "samples/samples.h"
#include "target/probe.h"

namespace aerie {

void ExtractConfig::fields(FieldList& v) {
  v("boundaries", boundaries, "layer boundaries to keep, ascending; empty = 2, n/2, n-3");
  v("dtype", dtype, "how states are stored").one_of({"BF16", "F32"});
  v("max_length", max_length, "tokens; longer conversations are cut there, and where target.context ends").range(2, 1 << 24);
  v("queue_mb", queue_mb, "memory for states that are captured and not written yet, in MB").range(1, 1 << 20);
  v("patience_s", patience_s, "seconds without an answer after which the store's storage counts as failed").range(1, 86400);
}

namespace {

Result<std::vector<int>> boundaries_of(const ExtractConfig& config, const TargetFacts& facts) {
  if (config.boundaries.empty()) return default_boundaries(facts.layer_count);
  for (size_t i = 0; i < config.boundaries.size(); ++i) {
    const int boundary = config.boundaries[i];
    if (boundary < 0 || boundary > facts.layer_count)
      return invalid("extract.boundaries: " + std::to_string(boundary) + " is outside 0.." +
                     std::to_string(facts.layer_count) + ", the boundaries of " + facts.name);
    if (i > 0 && boundary <= config.boundaries[i - 1])
      return invalid("extract.boundaries must ascend, but " + std::to_string(boundary) + " follows " +
                     std::to_string(config.boundaries[i - 1]));
  }
  return config.boundaries;
}

StoreHeader header_of(const TargetFacts& facts, const std::vector<int>& boundaries, const std::string& dtype,
                      const ProbeReport& report) {
  StoreHeader header;
  header.target_fingerprint = target_fingerprint(facts, boundaries);
  header.target_name = facts.name;
  header.architecture = facts.architecture;
  header.engine = facts.engine;
  header.weight_type = facts.weight_type;
  header.layer_count = facts.layer_count;
  header.hidden_size = facts.hidden_size;
  header.vocab_size = facts.vocab_size;
  header.boundaries = boundaries;
  header.last_is_prenorm = true;  // the probe has proven it
  header.dtype = dtype;
  header.probe_json = report.json();
  header.facts_json = JsonObject()
                          .add_all({{"model_path", facts.model_path},
                                    {"intermediate_size", facts.intermediate_size},
                                    {"head_count", facts.head_count},
                                    {"kv_head_count", facts.kv_head_count},
                                    {"head_size", facts.head_size},
                                    {"context_length", facts.context_length},
                                    {"rms_norm_eps", facts.rms_norm_eps},
                                    {"rope_theta", facts.rope_theta},
                                    {"bos_id", facts.bos_id},
                                    {"eos_id", facts.eos_id},
                                    {"tied_embeddings", facts.tied_embeddings},
                                    {"engine_version", facts.engine_version},
                                    {"weights_fingerprint", facts.weights_fingerprint}})
                          .text();
  return header;
}

// Training needs no model file: norm and lm_head stand beside the samples. Written once.
Status keep_head(Target& target, FileSystem& fs, const std::string& store) {
  TRY(const bool there, fs.exists(store + "/target_head.safetensors"));
  if (there) return ok_status();
  const TargetFacts& facts = target.facts();
  TRY(const TargetHead head, target.head());
  const auto hidden = static_cast<int64_t>(facts.hidden_size), vocab = static_cast<int64_t>(facts.vocab_size);
  auto view = [](std::string name, Shape shape, const std::vector<float>& values) {
    return TensorView{std::move(name), DType::kF32, std::move(shape), std::as_bytes(std::span(values))};
  };
  const TensorView embeddings =
      facts.tied_embeddings ? TensorView{} : view("embeddings", {vocab, hidden}, head.embeddings);
  return write_target_head(fs, store, view("norm", {hidden}, head.norm), view("lm_head", {vocab, hidden}, head.lm_head),
                           embeddings);
}

// kInvalid when what an engine gave is no capture of these tokens: it must never reach the store.
Status check_captured(const Captured& captured, size_t tokens, size_t boundaries, size_t hidden) {
  if (captured.row_count != static_cast<int64_t>(tokens))
    return invalid("the engine gave " + std::to_string(captured.row_count) + " rows for " + std::to_string(tokens) +
                   " tokens");
  if (captured.states.size() != boundaries)
    return invalid("the engine gave " + std::to_string(captured.states.size()) + " boundaries instead of " +
                   std::to_string(boundaries));
  // The store refuses rows of zeros too; found here, they count like everything else that a broken target shows.
  auto check = [&](const std::vector<float>& rows, const std::string& what, bool may_be_zero) -> Status {
    if (rows.size() != tokens * hidden) return invalid(what + " has another size than its rows");
    const auto bad = std::find_if(rows.begin(), rows.end(), [](float value) { return !std::isfinite(value); });
    if (bad != rows.end())
      return invalid(what + " holds a value that is not finite, in the row of token " +
                     std::to_string(static_cast<size_t>(bad - rows.begin()) / hidden));
    for (size_t row = 0; row < tokens && !may_be_zero; ++row)
      if (std::all_of(rows.data() + row * hidden, rows.data() + (row + 1) * hidden, [](float value) { return value == 0; }))
        return invalid(what + " is all zeros in the row of token " + std::to_string(row));
    return ok_status();
  };
  for (size_t i = 0; i < boundaries; ++i)
    CHECKED(check(captured.states[i], "boundary " + std::to_string(captured.boundaries[i]), captured.boundaries[i] == 0));
  return check(captured.last, "the final state", false);
}

// One run over the conversations.
class Extraction {
 public:
  Extraction(Target& target, const ExtractConfig& config, std::vector<int> boundaries, ConversationReader reader,
             std::unique_ptr<StoreWriter> store, RunFolder& run, Progress& progress, std::stop_token stop)
      : target_(target), config_(config), boundaries_(std::move(boundaries)), reader_(std::move(reader)), run_(run),
        progress_(progress), stop_(std::move(stop)), known_(store->present()),
        skipped_before_(store->skipped().begin(), store->skipped().end()),
        store_(std::move(store), static_cast<uint64_t>(config.queue_mb) * 1000000, config.patience_s) {}

  // Everything captured is sealed when this returns, however it ends, unless the store is what failed.
  Status run() {
    Status worked = work();
    Status finished = ok_status();
    if (!store_failed_) finished = store_.finish(drain_while_waiting());
    drain();
    if (!finished) return finished;
    return worked ? told_ : worked;
  }

  ExtractStats stats;
  std::string first_reason;

 private:
  Status work() {
    for (;;) {
      drain();
      CHECKED(told_);
      if (stop_.stop_requested()) return cancelled("extracting was stopped");
      auto conversation = reader_.next();
      if (!conversation) {
        if (conversation.error().code != Code::kInvalid) return std::move(conversation).error();
        ++stats.conversations;
        CHECKED(skip(name_of(config_.conversations) + ":" + std::to_string(reader_.line()), conversation.error().what));
        continue;
      }
      if (!*conversation) return end();
      ++stats.conversations;
      CHECKED(take(**conversation));
    }
  }

  Status take(const Conversation& conversation) {
    if (!seen_.insert(conversation.id).second) {
      ++stats.repeated;
      log_warning("conversation_repeated", place() + " repeats the id \"" + conversation.id + "\"; the first one counts");
      return ok_status();
    }
    if (was_there(conversation.id)) return ok_status();
    CHECKED(check_target(conversation));
    auto captured = capture(conversation);
    if (!captured) {
      if (captured.error().code != Code::kInvalid) return std::move(captured).error().under("conversation " + conversation.id);
      return skip(conversation.id, captured.error().what);
    }
    CHECKED(push_held());
    ++captured_;
    return push(*std::move(captured));
  }

  // All conversations are read. Where none could be extracted, now or earlier, what was bad about them is not known.
  Status end() { return captured_ + stats.already_there > 0 ? push_held() : ok_status(); }

  // True, and counted, when an earlier run has stored or skipped it.
  bool was_there(const std::string& id) {
    if (!known_.contains(id)) return false;
    ++(skipped_before_.contains(id) ? stats.skipped_before : stats.already_there);
    return true;
  }

  Status check_target(const Conversation& conversation) const {
    const std::string& ours = target_.facts().weights_fingerprint;
    if (conversation.token_ids.empty() || conversation.target_fingerprint.empty() ||
        conversation.target_fingerprint == ours)
      return ok_status();
    return invalid(place() + ": conversation \"" + conversation.id + "\" was made with the target " +
                   conversation.target_fingerprint + ", but this one (" + target_.facts().name + ") is " + ours +
                   "; its token ids mean nothing here: generate answers with this target");
  }

  Result<StoreWork> capture(const Conversation& conversation) {
    TRY(Tokens tokens, tokens_of(target_, conversation));
    const auto most = static_cast<size_t>(config_.max_length);
    const bool too_long = tokens.ids.size() > most;
    if (too_long) {
      tokens.ids.resize(most);
      tokens.mask.resize(most);
    }
    if (tokens.ids.size() < 2) return invalid("it has fewer than two tokens");
    if (std::find(tokens.mask.begin(), tokens.mask.end(), 1) == tokens.mask.end())
      return invalid("no token of an answer lies within its first " + std::to_string(tokens.ids.size()) + " tokens");
    StoreWork work;
    const double start_s = real_clock().monotonic_s();
    TRY(work.captured, target_.capture(tokens.ids, boundaries_, stop_));
    stats.engine_seconds += real_clock().monotonic_s() - start_s;
    CHECKED(check_captured(work.captured, tokens.ids.size(), boundaries_.size(),
                           static_cast<size_t>(target_.facts().hidden_size)));
    stats.cut += too_long ? 1 : 0;
    work.id = conversation.id;
    work.ids = std::move(tokens.ids);
    work.mask = std::move(tokens.mask);
    return work;
  }

  // Leaves out a conversation that can never be extracted, if it is the conversation's fault: what the store records is
  // never tried again, so it waits for a good one (push_held), and a streak that ends the run is not recorded at all.
  Status skip(const std::string& id, const std::string& reason) {
    if (was_there(id)) return ok_status();
    log_warning("sample_skipped", id + " is left out: " + reason, {{"id", id}});
    if (first_reason.empty()) first_reason = id + ": " + reason;
    StoreWork work;
    work.id = id;
    work.skip_reason = reason;
    held_.push_back(std::move(work));
    if (std::ssize(held_) >= kMaxBadInRow)
      return invalid(std::to_string(held_.size()) + " conversations in a row could not be extracted, the last, " + id +
                     ": " + reason + "; the file does not fit the target, or the target is broken");
    return ok_status();
  }

  Status push_held() {
    for (StoreWork& work : held_) CHECKED(push(std::move(work)));
    held_.clear();
    return ok_status();
  }

  // Nothing but the store ends this wait: what is captured would be lost, and a stop waits for the queue all the same.
  Status push(StoreWork work) {
    Status pushed = store_.push(std::move(work), drain_while_waiting());
    store_failed_ = !pushed;
    return pushed;
  }

  std::function<Status()> drain_while_waiting() {
    return [this] {
      drain();
      return ok_status();
    };
  }

  void tell(const std::string& name, const Fields& fields) {
    if (told_) told_ = run_.event(name, fields);
  }

  // Counts what the store has made durable since. An event that cannot be written is in told_: it must not keep the
  // store from sealing what is captured.
  void drain() {
    for (const Committed& committed : store_.take()) {
      for (size_t i = 0; i < committed.skipped_ids.size(); ++i) {
        ++stats.skipped;
        tell("sample_skipped", {{"id", committed.skipped_ids[i]}, {"reason", committed.skipped_reasons[i]}});
      }
      if (committed.samples == 0) continue;
      stats.stored += committed.samples;
      stats.tokens += committed.tokens;
      tell("shard_sealed", {{"samples", committed.samples}, {"tokens", committed.tokens},
                            {"samples_total", stats.stored}, {"tokens_total", stats.tokens}});
      progress_.advance(committed.samples, committed.tokens);
    }
    // Only what is on the disk counts; without this a large shard would look like a stall.
    progress_.facts({{"not_on_disk_yet", captured_ - stats.stored}});
    progress_.tick();
  }

  std::string place() const { return config_.conversations + ":" + std::to_string(reader_.line()); }

  Target& target_;
  const ExtractConfig& config_;
  std::vector<int> boundaries_;
  ConversationReader reader_;
  RunFolder& run_;
  Progress& progress_;
  std::stop_token stop_;
  std::unordered_set<std::string> known_;  // in the store before this run; the store itself is the thread's now
  std::unordered_set<std::string> skipped_before_;  // of these, left out then
  std::unordered_set<std::string> seen_;
  StoreThread store_;
  int64_t captured_ = 0;  // and given to the store
  std::vector<StoreWork> held_;  // left out since the last good one, not given to the store yet
  Status told_ = ok_status();    // the first event that could not be written
  bool store_failed_ = false;
};

std::string counts_text(const ExtractStats& stats) {
  std::string text = std::to_string(stats.stored) + " samples stored (" + std::to_string(stats.tokens) + " tokens), " +
                     std::to_string(stats.already_there) + " were there, " + std::to_string(stats.skipped) + " left out";
  if (stats.skipped_before > 0) text += ", " + std::to_string(stats.skipped_before) + " left out by earlier runs";
  return text;
}

Status tell_end(RunFolder& run, const ExtractStats& stats, const Status& worked) {
  return run.event(worked ? "extract_done" : "extract_failed",
                   {{"conversations", stats.conversations}, {"stored", stats.stored}, {"tokens", stats.tokens},
                    {"already_there", stats.already_there}, {"skipped", stats.skipped}, {"skipped_before", stats.skipped_before},
                    {"repeated", stats.repeated}, {"cut", stats.cut}, {"seconds", stats.seconds}, {"engine_seconds", stats.engine_seconds},
                    {"error", worked ? "" : worked.error().what}});
}

}  // namespace

Result<ExtractStats> extract(Target& target, const ExtractConfig& config, const StoreConfig& store_config,
                             RunFolder& run, std::stop_token stop, FileSystem& fs) {
  const double start_s = real_clock().monotonic_s();
  TRY(const std::vector<int> boundaries, boundaries_of(config, target.facts()));
  TRY(const int64_t total, count_samples(fs, config.conversations));
  if (total == 0) return invalid(config.conversations + " holds no conversation");
  TRY(ConversationReader reader, ConversationReader::open(fs, config.conversations));
  TRY(const ProbeReport report, probe(target, boundaries, stop));
  CHECKED(run.event("probe", {{"passed", report.passed()}}, "\"report\":" + report.json()));
  const StoreHeader header = header_of(target.facts(), boundaries, config.dtype, report);
  TRY(auto store, StoreWriter::open(fs, config.store, header, store_config));
  CHECKED(keep_head(target, fs, config.store));
  const std::ptrdiff_t skipped_before = std::ssize(store->skipped());
  const auto before = std::min<int64_t>(std::ssize(store->present()) - skipped_before, total);
  CHECKED(run.event("extract_started", {{"conversations", total}, {"already_there", before},
                                        {"skipped_before", skipped_before}, {"store", config.store},
                                        {"target", header.target_fingerprint}}));

  Progress progress({"extract", "samples", total, before, "tokens"}, &run);
  Extraction extraction(target, config, boundaries, std::move(reader), std::move(store), run, progress, stop);
  Status worked = extraction.run();
  ExtractStats& stats = extraction.stats;
  stats.seconds = real_clock().monotonic_s() - start_s;
  const Status told = tell_end(run, stats, worked);
  if (!worked) return std::move(worked).error().under("extracting hidden states (" + counts_text(stats) + ")");
  CHECKED(told);
  if (stats.stored + stats.already_there == 0)
    return invalid("none of the " + std::to_string(total) + " conversations of " + config.conversations +
                   " could be extracted" +
                   (extraction.first_reason.empty() ? "; " + config.store + "/skipped.jsonl says why"
                                                    : "; the first, " + extraction.first_reason));
  progress.finish(counts_text(stats));
  return stats;
}

}  // namespace aerie
