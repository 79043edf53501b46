// Decodes with a target and its EAGLE-3 draft, and with the target alone, in the same way and with the same draws, so
// that the two can be compared token by token. No torch and no llama.cpp in this header.
//
// What makes the comparison fair: both ways prefill the same prompt rows in the same chunks, keep the last prompt token
// for the first decode step, read the target's raw logits, and choose with the same rule (target/choose.h): greedy, or
// one uniform draw for each token that is put out. A drafted token is accepted exactly when the target chooses it too.
// So speculation is lossless by construction, and a sampled run with the same seed gives the same tokens as the plain
// one. What is left are numeric ties: the target computes k+1 rows in one pass with other roundings than one row, and
// where its two best logits are closer than that, greedy may go either way. `gaps` makes such places visible.
//
// A decoder owns the models and is used by one thread at a time; calls block, use `threads` cores, and end at the next
// round when the stop token asks (kCancelled). Everything that would make llama.cpp abort the process (a draft of
// another target, hidden size or vocabulary; boundaries out of range; an architecture without layer-input hooks) is
// checked before a model is loaded, and gives kInvalid with both sides named. A prompt that does not fit the context is
// kInvalid.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace aerie {

// How to open. An empty `draft` opens the target alone: only draft_length 0 can be decoded then.
struct DecoderConfig {
  std::string target;              // GGUF of the target
  std::string draft;               // GGUF of the draft, architecture eagle3
  std::string target_fingerprint;  // what the draft must have been trained for; empty = not compared
  int context = 2048;              // tokens of prompt and answer together
  int batch = 512;                 // rows of one prefill pass
  int threads = 0;                 // 0 = all cores
  std::string kv_type = "f16";     // f16 | f32 | q8_0, of the target; the draft's is f16 (f32 when this is f32)
  bool flash_attention = true;

  void fields(FieldList& v);
};

// How to decode one prompt.
struct DecodeRequest {
  std::vector<int32_t> prompt_ids;  // one token at least; all of them, as the template rendered and tokenised them
  int max_tokens = 128;             // exactly this many come out unless the model ends by itself or the context is full
  int draft_length = 0;             // longest chain drafted in a round; 0 = the target alone
  double p_min = 0;                 // the chain ends before a token the draft finds less probable than this
  double temperature = 0;           // 0 = greedy
  double top_p = 1;
  int top_k = 0;            // 0 = all
  uint64_t seed = 0;        // of this request; used when temperature > 0
  bool ignore_end = false;  // go on after an end-of-turn token, to measure fixed lengths
};

// What came out, and where the time went. Times are wall seconds on the steady clock.
struct Decoded {
  std::vector<int32_t> ids;  // the end token included when the model ended by itself
  // For every id: the target's best logit minus its second best (raw logits, no temperature), in the pass that produced
  // it.
  std::vector<float> gaps;
  bool stopped = false;      // true: ended by itself; false: max_tokens or the context's end
  std::vector<int> drafted;  // for each round: tokens proposed (plain: 0)
  // For each round: of the proposed tokens, those that the target agreed with. A round yields accepted + 1 ids; the
  // last one may be cut by max_tokens or the end token, and what was cut is not counted.
  std::vector<int> accepted;
  std::vector<std::vector<int32_t>> drafts;  // for each round: the tokens proposed
  double prefill_s = 0;                      // all prompt rows but the last, target and draft together
  double draft_s = 0;   // proposing, and keeping the draft's states true (encoder and refill included)
  double verify_s = 0;  // the target's passes (plain: its single steps)
  double choose_s = 0;  // reading logits and drawing
  double total_s = 0;   // prefill included

  double decode_s() const { return total_s - prefill_s; }
  // (ids) / (rounds): acceptance length, the bonus token included; 1 for the target alone, 0 when nothing came out.
  double acceptance_length() const;
  // For each draft position i: share of the rounds that drafted more than i tokens and had more than i accepted.
  // Empty when nothing was drafted.
  std::vector<double> acceptance_by_position() const;
};

// What speculation costs on this machine, for explaining why it pays or does not. Medians of wall seconds over
// `repeats`.
struct StepCosts {
  double plain_step_s = 0;        // one token, target alone
  std::vector<double> verify_s;   // [k-1]: the target over k rows in one pass, k = 1..max_rows
  std::vector<double> refresh_s;  // [k-1]: the draft taking in k rows of true features (encoder + layer)
  double draft_step_s = 0;        // one more token of the chain
  int context_rows = 0;           // rows in the cache when measured
};

class SpeculativeDecoder {
 public:
  static Result<std::unique_ptr<SpeculativeDecoder>> open(const DecoderConfig& config);
  virtual ~SpeculativeDecoder() = default;

  virtual const DecoderConfig& config() const = 0;
  virtual bool has_draft() const = 0;
  // One sentence for people and reports: model names, weight types, engine version, threads.
  virtual std::string description() const = 0;
  // Each call starts from an empty cache; nothing is kept between calls.
  virtual Result<Decoded> decode(const DecodeRequest& request, std::stop_token stop = {}) = 0;
  // Needs a draft; `prompt_ids` fills the cache first (a few hundred tokens make a typical context). max_rows <= 16.
  virtual Result<StepCosts> measure_costs(std::span<const int32_t> prompt_ids, int max_rows, int repeats,
                                          std::stop_token stop = {}) = 0;
};

// Checks that this draft file can serve this target file, from their metadata alone, without loading either:
// architecture eagle3 with one layer and three boundaries, hidden size, boundaries within the target, the same tokens
// in the same order, tensors that llama.cpp will need, a target architecture whose layer inputs llama.cpp can show, and
// (when not empty) the fingerprint. kInvalid names both sides.
Status check_draft_fits(const std::string& target_gguf, const std::string& draft_gguf,
                        std::string_view target_fingerprint);

// What the target's file is to a draft with these boundaries, and whether the draft says which target it was made for
// (a draft of another tool does not).
struct DraftBinding {
  std::string target_fingerprint;
  bool draft_is_bound = false;
};
Result<DraftBinding> draft_binding(const std::string& target_gguf, const std::string& draft_gguf);

// How two greedy outputs for the same prompt relate.
struct OutputComparison {
  bool equal = true;
  size_t first_difference = 0;  // index of the first differing id; the shorter length when one is a prefix of the other
  double gap_plain = -1;        // the target's gap there in either run; -1 when that run has no such token
  double gap_speculative = -1;
};
OutputComparison compare_outputs(const Decoded& plain, const Decoded& speculative);

}  // namespace aerie
