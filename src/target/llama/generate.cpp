#include "target/llama/generate.h"

#include <algorithm>

#include "llama.h"
#include "target/choose.h"

namespace aerie::llama {

struct Generator::Answer {
  size_t index = 0;       // of the request
  int sequence = 0;
  int length = 0;         // tokens in the cache
  int32_t next = 0;       // chosen, not in the cache yet
  std::vector<int32_t> ids;
  Random random;
  SampleRule rule;
};

Generator::Generator(llama_model& model, const TargetConfig& config, ContextPtr context)
    : model_(model), config_(config), context_(std::move(context)), batch_(std::max(config.batch, config.parallel)),
      places_(static_cast<size_t>(config.parallel)) {}
Generator::~Generator() = default;

Result<std::unique_ptr<Generator>> Generator::open(llama_model& model, const TargetConfig& config) {
  ContextOptions options;
  options.tokens = config.context * config.parallel;
  options.sequences = config.parallel;
  options.batch = std::max(config.batch, config.parallel);
  options.threads = config.threads;
  options.kv_type = config.kv_type;
  options.flash_attention = config.flash_attention;
  TRY(ContextPtr context, open_context(model, options, config.model));
  return std::unique_ptr<Generator>(new Generator(model, config, std::move(context)));
}

Status Generator::run(const std::vector<GenerateRequest>& requests, const Target::OnGenerated& done, std::stop_token stop) {
  requests_ = &requests;
  done_ = &done;
  for (auto& place : places_) place.reset();
  llama_memory_clear(llama_get_memory(context_.get()), true);
  size_t next = 0;
  for (;;) {
    for (size_t i = 0; i < places_.size() && next < requests.size(); ++i) {
      if (places_[i]) continue;
      if (stop.stop_requested()) return cancelled("answering was stopped");
      const GenerateRequest& request = requests[next];
      const size_t length = request.prompt_ids.size();
      if (length == 0 || length >= static_cast<size_t>(config_.context)) {
        CHECKED(done(next++, invalid(length == 0 ? std::string("the prompt has no tokens")
                                                 : "the prompt has " + std::to_string(length) + " tokens and leaves no room in a context of " +
                                                       std::to_string(config_.context) + " (target.context)")));
        --i;
        continue;
      }
      places_[i] = std::make_unique<Answer>(Answer{next, static_cast<int>(i), 0, 0, {}, Random(request.seed),
                                                   {request.temperature, request.top_p, request.top_k}});
      ++next;
      CHECKED(prefill(*places_[i]));
    }
    if (std::none_of(places_.begin(), places_.end(), [](const auto& place) { return place != nullptr; })) {
      if (next == requests.size()) return ok_status();
      continue;
    }
    if (stop.stop_requested()) return cancelled("answering was stopped");
    CHECKED(step());
  }
}

Status Generator::prefill(Answer& answer) {
  const std::vector<int32_t>& ids = (*requests_)[answer.index].prompt_ids;
  for (size_t begin = 0; begin < ids.size();) {
    const size_t end = std::min(ids.size(), begin + static_cast<size_t>(config_.batch));
    batch_.clear();
    for (size_t i = begin; i < end; ++i) batch_.add(ids[i], static_cast<int>(i), answer.sequence, i + 1 == ids.size());
    CHECKED(batch_.decode(*context_));
    begin = end;
  }
  answer.length = static_cast<int>(ids.size());
  return take(answer, batch_.size() - 1);
}

Status Generator::step() {
  std::vector<Answer*> rows;
  batch_.clear();
  for (const auto& place : places_) {
    if (!place) continue;
    batch_.add(place->next, place->length, place->sequence, true);
    rows.push_back(place.get());
  }
  CHECKED(batch_.decode(*context_));
  // take() frees places; the rows of this pass stay as they are.
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row]->length += 1;
    CHECKED(take(*rows[row], static_cast<int>(row)));
  }
  return ok_status();
}

Status Generator::take(Answer& answer, int row) {
  const GenerateRequest& request = (*requests_)[answer.index];
  const float* logits = llama_get_logits_ith(context_.get(), row);
  if (logits == nullptr) return internal("llama.cpp gave no logits for row " + std::to_string(row) + because());
  const llama_vocab* vocab = llama_model_get_vocab(&model_);
  if (request.max_tokens <= 0) return finish(answer, false);
  const size_t vocab_size = static_cast<size_t>(llama_vocab_n_tokens(vocab));
  answer.next = choose({logits, vocab_size}, answer.rule, answer.random).id;
  answer.ids.push_back(answer.next);
  if (llama_vocab_is_eog(vocab, answer.next)) return finish(answer, true);
  // A token whose state would not fit the context is the last one.
  if (static_cast<int>(answer.ids.size()) >= request.max_tokens || answer.length >= config_.context) return finish(answer, false);
  return ok_status();
}

Status Generator::finish(Answer& answer, bool stopped) {
  const size_t index = answer.index;
  const int sequence = answer.sequence;
  Generated generated{std::move(answer.ids), stopped};
  llama_memory_seq_rm(llama_get_memory(context_.get()), sequence, -1, -1);
  places_[static_cast<size_t>(sequence)].reset();
  return (*done_)(index, std::move(generated));
}

}  // namespace aerie::llama
