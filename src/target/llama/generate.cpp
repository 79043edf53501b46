#include "target/llama/generate.h"

#include <algorithm>
#include <deque>

#include "llama.h"
#include "target/choose.h"

namespace aerie::llama {

struct Generator::Answer {
  size_t index;           // of the request
  int sequence;
  Random random;
  SampleRule rule;
  size_t length = 0;      // tokens in the cache
  int32_t next = 0;       // chosen, not in the cache yet
  std::vector<int32_t> ids = {};
};

struct Generator::Run {
  const std::vector<GenerateRequest>& requests;
  const Target::OnGenerated& done;
  const std::stop_token& stop;
  const std::stop_token& enough;
  size_t next = 0;                               // first request without a place
  std::vector<std::unique_ptr<Answer>> places = {};  // by sequence id; null = free
  std::deque<Answer*> waiting = {};              // for the rest of their prompt to be taken in
  size_t in_flight = 0;
};

Generator::Generator(llama_model& model, const TargetConfig& config, ContextPtr context)
    : model_(model), config_(config), context_(std::move(context)), batch_(std::max(config.batch, config.parallel)) {}
Generator::~Generator() = default;

Result<std::unique_ptr<Generator>> Generator::open(llama_model& model, const TargetConfig& config) {
  ContextOptions options;
  // One cache a sequence (not unified): with one for all, each row would pay attention over the rows of all sequences.
  options.tokens = config.context * config.parallel;
  options.sequences = config.parallel;
  options.batch = std::max(config.batch, config.parallel);
  options.threads = config.threads;
  options.kv_type = config.kv_type;
  options.flash_attention = config.flash_attention;
  TRY(ContextPtr context, open_context(model, options, config.model));
  return std::unique_ptr<Generator>(new Generator(model, config, std::move(context)));
}

Status Generator::run(const std::vector<GenerateRequest>& requests, const Target::OnGenerated& done,
                      const std::stop_token& stop, const std::stop_token& enough) {
  llama_memory_clear(llama_get_memory(context_.get()), true);
  Run run{requests, done, stop, enough};
  run.places.resize(static_cast<size_t>(config_.parallel));
  for (;;) {
    if (stop.stop_requested()) return cancelled("answering was stopped");
    CHECKED(admit(run));
    if (run.in_flight == 0) return ok_status();
    CHECKED(take_in_prompts(run));
    CHECKED(step(run));
  }
}

Status Generator::check(const GenerateRequest& request) const {
  const size_t length = request.prompt_ids.size();
  if (length == 0) return invalid("the prompt has no tokens");
  if (length >= static_cast<size_t>(config_.context))
    return invalid("the prompt has " + std::to_string(length) + " tokens and leaves no room in a context of " +
                   std::to_string(config_.context) + " (target.context)");
  return check_ids(model_, request.prompt_ids);
}

Status Generator::admit(Run& run) {
  for (size_t place = 0; place < run.places.size(); ++place) {
    while (!run.places[place] && run.next < run.requests.size() && !run.enough.stop_requested()) {
      const size_t index = run.next++;
      const GenerateRequest& request = run.requests[index];
      Status fine = check(request);
      if (fine && request.max_tokens > 0) {
        run.places[place] = std::make_unique<Answer>(Answer{index, static_cast<int>(place), Random(request.seed),
                                                            {request.temperature, request.top_p, request.top_k}});
        run.waiting.push_back(run.places[place].get());
        ++run.in_flight;
        continue;
      }
      CHECKED(run.done(index, fine ? Result<Generated>(Generated{}) : Result<Generated>(std::move(fine).error())));
    }
  }
  return ok_status();
}

Status Generator::take_in_prompts(Run& run) {
  auto budget = static_cast<size_t>(config_.batch);
  while (!run.waiting.empty() && budget > 0) {
    if (run.stop.stop_requested()) return cancelled("answering was stopped");
    Answer& answer = *run.waiting.front();
    const std::vector<int32_t>& ids = run.requests[answer.index].prompt_ids;
    const size_t end = std::min(ids.size(), answer.length + static_cast<size_t>(config_.batch));
    batch_.clear();
    for (size_t i = answer.length; i < end; ++i) batch_.add(ids[i], static_cast<int>(i), answer.sequence, i + 1 == ids.size());
    CHECKED(batch_.decode(*context_, run.stop));
    budget -= std::min(budget, end - answer.length);
    answer.length = end;
    if (end < ids.size()) continue;
    run.waiting.pop_front();
    CHECKED(choose_next(run, answer, batch_.size() - 1));
  }
  return ok_status();
}

Status Generator::step(Run& run) {
  std::vector<Answer*> rows;
  batch_.clear();
  for (const auto& place : run.places) {
    if (!place || place->ids.empty()) continue;
    batch_.add(place->next, static_cast<int>(place->length), place->sequence, true);
    rows.push_back(place.get());
  }
  if (rows.empty()) return ok_status();
  CHECKED(batch_.decode(*context_, run.stop));
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row]->length += 1;
    CHECKED(choose_next(run, *rows[row], static_cast<int>(row)));  // may end the answer; the rows of the pass stay
  }
  return ok_status();
}

Status Generator::choose_next(Run& run, Answer& answer, int row) {
  const float* logits = llama_get_logits_ith(context_.get(), row);
  if (logits == nullptr) return internal("llama.cpp gave no logits for row " + std::to_string(row) + because());
  const llama_vocab* vocab = llama_model_get_vocab(&model_);
  answer.next = choose({logits, static_cast<size_t>(llama_vocab_n_tokens(vocab))}, answer.rule, answer.random).id;
  answer.ids.push_back(answer.next);
  if (llama_vocab_is_eog(vocab, answer.next)) return finish(run, answer, true);
  // A token whose state would not fit the context is the last one.
  const bool full = answer.length >= static_cast<size_t>(config_.context);
  if (full || answer.ids.size() >= static_cast<size_t>(run.requests[answer.index].max_tokens)) return finish(run, answer, false);
  return ok_status();
}

Status Generator::finish(Run& run, Answer& answer, bool stopped) {
  const size_t index = answer.index;
  const int sequence = answer.sequence;
  Generated generated{std::move(answer.ids), stopped};
  llama_memory_seq_rm(llama_get_memory(context_.get()), sequence, -1, -1);
  run.places[static_cast<size_t>(sequence)].reset();
  --run.in_flight;
  return run.done(index, std::move(generated));
}

}  // namespace aerie::llama
