#include "draft/llama/engine.h"

#include <algorithm>

#include <fmt/format.h>

#include "common.h"
#include "llama.h"
#include "speculative.h"

namespace aerie::llama_draft {
namespace {

// llama.cpp gives a code; what it means at our call sites.
Error pass_failed(int code, size_t rows, int position) {
  return internal(fmt::format("llama.cpp failed over {} rows at position {} (code {}{}){}", rows, position, code,
                              code == 1 ? ", no room in the cache" : "", llama::because()));
}

}  // namespace

void FreeSpeculative::operator()(common_speculative* speculative) const { common_speculative_free(speculative); }

struct Engine::Batch {
  common_batch rows;
};
void Engine::FreeBatch::operator()(Batch* batch) const { delete batch; }

Result<std::unique_ptr<Engine>> Engine::open(const DecoderConfig& config) {
  std::unique_ptr<Engine> engine(new Engine());
  CHECKED(engine->load(config));
  return engine;
}

Status Engine::load(const DecoderConfig& config) {
  config_ = config;
  threads_ = llama::thread_count(config.threads);
  TRY(target_, llama::open_model(config.target));
  vocab_size_ = llama_vocab_n_tokens(llama_model_get_vocab(target_.get()));
  if (config.draft.empty()) return ok_status();

  auto draft = llama::open_model(config.draft);
  if (!draft) return std::move(draft).error().under("draft");
  draft_ = *std::move(draft);
  TRY(verifying_, make_context(target_.get(), nullptr, kLongestDraft + 1));
  if (common_context_can_seq_rm(verifying_.get()) != COMMON_CONTEXT_SEQ_RM_TYPE_PART) {
    return invalid(
        fmt::format("the target {} keeps a state that cannot be rolled back (recurrent or hybrid layers); speculative "
                    "decoding of such models is not built into aerie",
                    config.target));
  }
  TRY(drafting_, make_context(draft_.get(), verifying_.get(), 1));
  return ok_status();
}

Result<ContextPtr> Engine::make_context(llama_model* model, llama_context* other, int outputs) const {
  auto params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(config_.context);
  params.n_batch = static_cast<uint32_t>(std::max(config_.batch, kLongestDraft + 1));
  params.n_ubatch = params.n_batch;
  params.n_seq_max = 1;
  params.n_outputs_max = static_cast<uint32_t>(outputs);
  params.n_outputs_max_per_seq = static_cast<uint32_t>(outputs);
  params.n_threads = threads_;
  params.n_threads_batch = threads_;
  params.no_perf = true;
  const bool is_draft = other != nullptr;
  const std::string type = is_draft && config_.kv_type == "q8_0" ? "f16" : config_.kv_type;
  params.type_k = params.type_v = static_cast<ggml_type>(llama::cache_type(type));
  params.flash_attn_type = config_.flash_attention ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.ctx_other = other;
  ContextPtr context(llama_init_from_model(model, params));
  if (context == nullptr) {
    return invalid(fmt::format("llama.cpp cannot make a context of {} tokens for {}{}", config_.context,
                               is_draft ? config_.draft : config_.target, llama::because()));
  }
  return context;
}

std::string Engine::description() const {
  const auto text_of = [](const llama_model* model) {
    char text[256] = "";
    llama_model_desc(model, text, sizeof text);
    return std::string(text);
  };
  return fmt::format("target {}{}, llama.cpp {}, {} threads", text_of(target_.get()),
                     draft_ ? ", draft " + text_of(draft_.get()) : ", no draft", llama_version(), threads_);
}

bool Engine::ends(int32_t token) const { return llama_vocab_is_eog(llama_model_get_vocab(target_.get()), token); }

Status Engine::start_plain() {
  if (plain_ == nullptr) {
    TRY(plain_, make_context(target_.get(), nullptr, 1));
  }
  active_ = plain_.get();
  llama_memory_clear(llama_get_memory(active_), true);
  batch_.reset(new Batch{common_batch(active_)});
  return ok_status();
}

Status Engine::start_speculative(int draft_length, double p_min) {
  active_ = verifying_.get();
  llama_memory_clear(llama_get_memory(active_), true);
  llama_memory_clear(llama_get_memory(drafting_.get()), true);
  speculative_.reset();
  common_params_speculative params;
  params.types = {COMMON_SPECULATIVE_TYPE_DRAFT_EAGLE3};
  params.draft.n_max = draft_length;
  params.draft.n_min = 0;
  params.draft.p_min = static_cast<float>(p_min);
  params.draft.ctx_tgt = verifying_.get();
  params.draft.ctx_dft = drafting_.get();
  try {
    speculative_.reset(common_speculative_init(params, 1));
  } catch (const std::exception& e) {
    return invalid(fmt::format("llama.cpp refuses the draft {}: {}", config_.draft, e.what()));
  }
  if (speculative_ == nullptr) return internal("llama.cpp made no EAGLE-3 speculator" + llama::because());
  batch_.reset(new Batch{common_batch(active_)});
  return ok_status();
}

Status Engine::prefill(std::span<const int32_t> rows, const std::stop_token& stop) {
  const auto chunk = static_cast<size_t>(config_.batch);
  const bool speculative = active_ == verifying_.get();
  for (size_t from = 0; from < rows.size(); from += chunk) {
    if (stop.stop_requested()) return cancelled("decoding was stopped on request");
    if (speculative && from > 0) {
      // The slot between two chunks waits for the next chunk's first token. Upstream's process() completes it, but with
      // the wrong state: its batch only points at the waiting state, which it overwrites before the batch is computed
      // (commit 0c1e57098). A proposal completes it too, with the right one; the chain that comes of it is dropped.
      const std::vector<int32_t> before;
      TRY(const auto dropped, propose(rows[from], static_cast<int>(from), before, 1));
    }
    CHECKED(pass(rows.subspan(from, std::min(chunk, rows.size() - from)), static_cast<int>(from), false));
    if (speculative) CHECKED(refresh());
  }
  return ok_status();
}

Status Engine::pass(std::span<const int32_t> rows, int position, bool logits) {
  common_batch& batch = batch_->rows;
  batch.clear();
  for (size_t i = 0; i < rows.size(); ++i) batch.add(rows[i], position + static_cast<int>(i), 0, logits);
  const int code = llama_process(active_, LLAMA_PROCESS_TYPE_DECODE, batch.get());
  if (code != 0) return pass_failed(code, rows.size(), position);
  llama_synchronize(active_);
  return ok_status();
}

Status Engine::refresh() {
  if (!common_speculative_process(speculative_.get(), batch_->rows)) {
    return internal("llama.cpp's EAGLE-3 failed to take in the target's states" + llama::because());
  }
  return ok_status();
}

Result<std::vector<int32_t>> Engine::propose(int32_t last, int position, const std::vector<int32_t>& before,
                                             int limit) {
  std::vector<llama_token> chain;
  auto& params = common_speculative_get_draft_params(speculative_.get(), 0);
  params.drafting = true;
  params.n_max = limit;
  params.pos0 = position;
  params.id_last = last;
  params.prompt = &before;
  params.result = &chain;
  common_speculative_draft(speculative_.get());
  // The chain's slots hold the draft's own states; refresh() writes true ones in their place.
  llama_memory_seq_rm(llama_get_memory(drafting_.get()), 0, position, -1);
  return chain;
}

void Engine::keep(int accepted, int position) {
  llama_memory_seq_rm(llama_get_memory(active_), 0, position, -1);
  if (active_ != verifying_.get()) return;
  common_speculative_accept(speculative_.get(), 0, static_cast<uint16_t>(accepted));
  llama_memory_seq_rm(llama_get_memory(drafting_.get()), 0, position, -1);
}

Result<std::span<const float>> Engine::logits(int row) {
  const float* values = llama_get_logits_ith(active_, row);
  if (values == nullptr) return internal(fmt::format("llama.cpp has no logits of row {}{}", row, llama::because()));
  return std::span<const float>(values, static_cast<size_t>(vocab_size_));
}

}  // namespace aerie::llama_draft
