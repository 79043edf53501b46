// The decoder of draft/decoder.h on llama.cpp's EAGLE-3.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "draft/llama/engine.h"
#include "draft/speculate.h"

namespace aerie {
namespace {

using llama_draft::Engine;
using llama_draft::kLongestDraft;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Adds the time from its making to its end to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), start_(now_s()) {}
  ~Stopwatch() { sum_ += now_s() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  double start_;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

Error stopped_on_request() { return cancelled("decoding was stopped on request"); }

// The state of one decode() call.
class Run {
 public:
  Run(Engine& engine, const DecoderConfig& config, const DecodeRequest& request, std::stop_token stop)
      : engine_(engine),
        config_(config),
        request_(request),
        stop_(std::move(stop)),
        random_(request.seed),
        rule_{request.temperature, request.top_p, request.top_k} {}

  Result<Decoded> go() {
    CHECKED(request_.draft_length > 0 ? engine_.start_speculative(request_.draft_length, request_.p_min)
                                      : engine_.start_plain());
    const double start = now_s();
    CHECKED(prefill());
    out_.prefill_s = now_s() - start;
    while (!finished()) {
      if (stop_.stop_requested()) return stopped_on_request();
      CHECKED(round());
    }
    out_.total_s = now_s() - start;
    return std::move(out_);
  }

 private:
  bool speculative() const { return request_.draft_length > 0; }
  int done() const { return static_cast<int>(out_.ids.size()); }
  bool finished() const { return out_.stopped || done() >= request_.max_tokens || seen_ + 1 > config_.context; }

  // All rows but the last, which opens the first round in both ways.
  Status prefill() {
    const size_t rows = request_.prompt_ids.size() - 1;
    CHECKED(engine_.prefill(std::span(request_.prompt_ids).first(rows), stop_));
    before_.assign(request_.prompt_ids.begin(), request_.prompt_ids.end() - 1);
    last_ = request_.prompt_ids.back();
    seen_ = static_cast<int>(rows);
    return ok_status();
  }

  Status round() {
    std::vector<int32_t> rows{last_};
    if (speculative()) {
      const Stopwatch watch(out_.draft_s);
      TRY(const std::vector<int32_t> chain, propose());
      rows.insert(rows.end(), chain.begin(), chain.end());
    }
    {
      const Stopwatch watch(out_.verify_s);
      CHECKED(engine_.pass(rows, seen_, true));
    }
    if (speculative()) {
      const Stopwatch watch(out_.draft_s);
      CHECKED(engine_.refresh());
    }
    TRY(const int accepted, choose_along(rows));
    out_.drafted.push_back(static_cast<int>(rows.size()) - 1);
    out_.accepted.push_back(accepted);
    out_.drafts.emplace_back(rows.begin() + 1, rows.end());

    before_.push_back(rows[0]);
    before_.insert(before_.end(), rows.begin() + 1, rows.begin() + 1 + accepted);
    last_ = out_.ids.back();
    seen_ += 1 + accepted;
    const Stopwatch watch(speculative() ? out_.draft_s : out_.verify_s);
    engine_.keep(accepted, seen_);
    return ok_status();
  }

  // A chain that can still be used: no longer than what is wanted and what the caches hold.
  Result<std::vector<int32_t>> propose() {
    const int limit = std::min(request_.draft_length, request_.max_tokens - done() - 1);
    const bool room = seen_ + request_.draft_length + 2 <= config_.context;
    if (limit < 1 || !room) return std::vector<int32_t>();
    return engine_.propose(last_, seen_, before_, limit);
  }

  // The target chooses row after row while it agrees with the draft; returns how many drafted tokens stand.
  Result<int> choose_along(const std::vector<int32_t>& rows) {
    const Stopwatch watch(out_.choose_s);
    for (size_t row = 0;; ++row) {
      TRY(const std::span<const float> logits, engine_.logits(static_cast<int>(row)));
      const Choice choice = choose(logits, rule_, random_);
      out_.ids.push_back(choice.id);
      out_.gaps.push_back(choice.gap);
      const bool agreed = row + 1 < rows.size() && rows[row + 1] == choice.id;
      out_.stopped = !request_.ignore_end && engine_.ends(choice.id);
      if (!agreed) return static_cast<int>(row);
      if (out_.stopped) return static_cast<int>(row) + 1;
    }
  }

  Engine& engine_;
  const DecoderConfig& config_;
  const DecodeRequest& request_;
  std::stop_token stop_;
  Random random_;
  SampleRule rule_;
  Decoded out_;
  std::vector<int32_t> before_;  // tokens the target's cache holds
  int32_t last_ = 0;             // chosen, not yet seen by the target
  int seen_ = 0;                 // rows in the target's cache
};

class LlamaDecoder : public SpeculativeDecoder {
 public:
  LlamaDecoder(DecoderConfig config, std::unique_ptr<Engine> engine)
      : config_(std::move(config)), engine_(std::move(engine)) {}

  const DecoderConfig& config() const override { return config_; }
  bool has_draft() const override { return engine_->has_draft(); }
  std::string description() const override { return engine_->description(); }

  Result<Decoded> decode(const DecodeRequest& request, std::stop_token stop) override {
    CHECKED(check_ids(request.prompt_ids));
    if (request.draft_length < 0 || request.draft_length > kLongestDraft) {
      return invalid(fmt::format("a draft length of {} is outside 0..{}", request.draft_length, kLongestDraft));
    }
    if (request.draft_length > 0 && !has_draft())
      return invalid("speculative decoding was asked for, but no draft was opened");
    if (request.max_tokens < 1) return invalid("max_tokens must be 1 at least");
    return Run(*engine_, config_, request, std::move(stop)).go();
  }

  Result<StepCosts> measure_costs(std::span<const int32_t> prompt_ids, int max_rows, int repeats,
                                  std::stop_token stop) override;

 private:
  Status check_ids(std::span<const int32_t> ids) const;
  Result<double> plain_step(std::span<const int32_t> ids, int repeats, std::stop_token stop);
  Status verify_and_refresh(std::span<const int32_t> ids, int repeats, StepCosts& costs, std::stop_token stop);
  Result<double> chain_s(std::span<const int32_t> ids, int length, int repeats, std::stop_token stop);

  DecoderConfig config_;
  std::unique_ptr<Engine> engine_;
};

Status LlamaDecoder::check_ids(std::span<const int32_t> ids) const {
  if (ids.empty()) return invalid("a prompt needs one token at least");
  if (ids.size() + 1 > static_cast<size_t>(config_.context)) {
    return invalid(fmt::format("the prompt has {} tokens, and the context of {} must hold it and an answer", ids.size(),
                               config_.context));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= engine_->vocab_size()) {
      return invalid(
          fmt::format("prompt token {} is {}, outside the vocabulary of {}", i, ids[i], engine_->vocab_size()));
    }
  }
  return ok_status();
}

Result<double> LlamaDecoder::plain_step(std::span<const int32_t> ids, int repeats, std::stop_token stop) {
  CHECKED(engine_->start_plain());
  CHECKED(engine_->prefill(ids, stop));
  std::vector<double> times;
  const int position = static_cast<int>(ids.size());
  for (int i = 0; i < repeats; ++i) {
    double s = 0;
    {
      const Stopwatch watch(s);
      CHECKED(engine_->pass(ids.first(1), position, true));
    }
    engine_->keep(0, position);
    times.push_back(s);
  }
  return median(times);
}

// Rounds as decode() makes them, with k - 1 proposals of which none is kept: the cache grows by one row a round.
Status LlamaDecoder::verify_and_refresh(std::span<const int32_t> ids, int repeats, StepCosts& costs,
                                        std::stop_token stop) {
  const size_t longest = costs.verify_s.size();
  CHECKED(engine_->start_speculative(1, 0));
  CHECKED(engine_->prefill(ids, stop));
  std::vector<std::vector<double>> verify(longest), refresh(longest);
  std::vector<int32_t> before(ids.begin(), ids.end());
  int position = static_cast<int>(ids.size());
  for (int i = 0; i < repeats; ++i) {
    for (size_t k = 1; k <= longest; ++k) {
      if (stop.stop_requested()) return stopped_on_request();
      TRY(const auto chain, engine_->propose(ids[0], position, before, 1));
      double verify_s = 0, refresh_s = 0;
      {
        const Stopwatch watch(verify_s);
        CHECKED(engine_->pass(ids.first(k), position, true));
      }
      {
        const Stopwatch watch(refresh_s);
        CHECKED(engine_->refresh());
      }
      before.push_back(ids[0]);
      engine_->keep(0, ++position);
      verify[k - 1].push_back(verify_s);
      refresh[k - 1].push_back(refresh_s);
    }
  }
  for (size_t k = 0; k < longest; ++k) {
    costs.verify_s[k] = median(verify[k]);
    costs.refresh_s[k] = median(refresh[k]);
  }
  return ok_status();
}

// Seconds of proposing a chain of this length.
Result<double> LlamaDecoder::chain_s(std::span<const int32_t> ids, int length, int repeats, std::stop_token stop) {
  CHECKED(engine_->start_speculative(length, 0));
  CHECKED(engine_->prefill(ids, stop));
  const std::vector<int32_t> before(ids.begin(), ids.end());
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    double s = 0;
    {
      const Stopwatch watch(s);
      TRY(const auto chain, engine_->propose(ids[0], static_cast<int>(ids.size()), before, length));
    }
    times.push_back(s);
  }
  return median(times);
}

Result<StepCosts> LlamaDecoder::measure_costs(std::span<const int32_t> prompt_ids, int max_rows, int repeats,
                                              std::stop_token stop) {
  if (!has_draft()) return invalid("the costs of speculation need a draft, and none was opened");
  if (max_rows < 1 || max_rows > kLongestDraft || repeats < 1) {
    return invalid(fmt::format("costs are measured for 1..{} rows and one repeat at least", kLongestDraft));
  }
  CHECKED(check_ids(prompt_ids));
  const size_t needed = prompt_ids.size() + static_cast<size_t>(max_rows * (repeats + 1)) + kLongestDraft;
  if (prompt_ids.size() < static_cast<size_t>(max_rows) || needed > static_cast<size_t>(config_.context)) {
    return invalid(fmt::format("measuring {} rows {} times needs a prompt of {} tokens at least and a context of {}",
                               max_rows, repeats, max_rows, needed));
  }
  StepCosts costs;
  costs.context_rows = static_cast<int>(prompt_ids.size());
  costs.verify_s.resize(static_cast<size_t>(max_rows));
  costs.refresh_s.resize(static_cast<size_t>(max_rows));
  TRY(costs.plain_step_s, plain_step(prompt_ids, repeats, stop));
  CHECKED(verify_and_refresh(prompt_ids, repeats, costs, stop));
  TRY(const double short_chain, chain_s(prompt_ids, 1, repeats, stop));
  constexpr int kLong = 9;
  TRY(const double long_chain, chain_s(prompt_ids, kLong, repeats, stop));
  costs.draft_step_s = std::max(0.0, (long_chain - short_chain) / (kLong - 1));
  return costs;
}

}  // namespace

Result<std::unique_ptr<SpeculativeDecoder>> SpeculativeDecoder::open(const DecoderConfig& config) {
  if (config.target.empty()) return invalid("no target GGUF was named");
  if (!config.draft.empty()) CHECKED(check_draft_fits(config.target, config.draft, config.target_fingerprint));
  try {
    TRY(auto engine, Engine::open(config));
    return std::unique_ptr<SpeculativeDecoder>(std::make_unique<LlamaDecoder>(config, std::move(engine)));
  } catch (const std::exception& e) {  // llama.cpp's common library throws
    return internal(fmt::format("llama.cpp failed while opening {}: {}", config.target, e.what()));
  }
}

}  // namespace aerie
