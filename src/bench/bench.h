// Asks a target the same held-out prompts alone and with its draft, and says what the draft is worth on this machine:
// acceptance, speed-up with its spread, and whether every answer stayed the same, token by token.
//
// For each prompt the ways of decoding (the target alone, then each draft length) run one after another, in an order
// that rotates from prompt to prompt, so that whatever else the machine does hits all ways alike; speed-ups are ratios
// within one prompt, never between runs. Greedy answers must be equal. A difference is a numeric tie when the target's
// own two best logits are closer there than rounding explains: four times the noise that the run itself saw between
// one-token and many-token passes, and never more than its weight type can do (tie_tolerance()). Any other difference
// makes the result `failed`, with the prompt, position, tokens and gap in words.
//
// Everything blocks on the calling thread, uses `threads` cores, and ends with kCancelled soon after the stop token
// asks. Plain values; a BenchResult can be written, read back and compared later (results.json, names are stable).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "base/run_folder.h"
#include "draft/decoder.h"
#include "samples/samples.h"

namespace aerie {

struct BenchConfig {
  std::string prompts;   // file of held-out prompts, never trained on
  int count = 24;        // prompts to measure, spread evenly over the file; 0 = all
  int max_tokens = 128;  // of one answer
  std::vector<int> draft_lengths = {1, 2, 3, 4, 6};
  double p_min = 0;        // a chain ends before a token the draft finds less probable than this
  double temperature = 0;  // 0 = greedy: the only setting in which a difference can be judged
  double top_p = 1;
  int top_k = 0;
  int64_t seed = 1;
  int repeats = 1;          // runs of each prompt and way; the one with the median time counts
  double time_limit_s = 0;  // 0 = none; else no new prompt is begun after this, once three are done
  int context = 2048;
  int batch = 512;
  int threads = 0;  // 0 = all cores
  std::string kv_type = "f16";
  bool flash_attention = true;
  double tie_gap = 0;               // 0 = by the noise that is seen, and the weight type
  int sample_count = 4;             // answers kept as text for the report
  std::vector<std::string> copies;  // F16, F32: also measures the target's weights written in these types
  bool other_weights = false;       // measures a target that the draft was not trained for, if it fits at all

  void fields(FieldList& v);
};

// What is measured.
struct BenchSubject {
  std::string label;   // "Q4_1", names the folder of the results; empty = the target's weight type
  std::string target;  // GGUF
  std::string draft;   // GGUF
  std::string target_fingerprint;  // set by bench(): what the draft says, too; empty = not compared
  std::string note;                // for people: "the demo's target, dequantised"
  // The draft was trained on other weights of the same model (F16 made from Q4_1): fingerprints are not compared.
  bool other_weights = false;
};

struct Spread {
  double low = 0, q1 = 0, median = 0, q3 = 0, high = 0;
  int64_t count = 0;
};
// Quartiles by linear interpolation; nothing of nothing.
std::optional<Spread> spread_of(std::vector<double> values);

// One way of decoding, summed over all prompts. Costs are in units of one plain step of the target.
struct WayResult {
  int draft_length = 0;  // 0 = the target alone
  int64_t answers = 0, tokens = 0, rounds = 0, drafted = 0, accepted = 0;
  double prefill_s = 0, draft_s = 0, verify_s = 0, choose_s = 0, decode_s = 0;
  double tokens_per_s = 0;       // decoding alone
  double acceptance_length = 0;  // tokens a round, bonus token included
  // Position i: share of the rounds that drafted more than i tokens in which more than i were accepted; and the same
  // among those in which the i before were. The last round of an answer is left out: its end is not the draft's doing.
  std::vector<double> acceptance, acceptance_given_before;
  std::optional<Spread> speedup;                 // per prompt, decoding; absent for the target alone
  std::optional<double> speedup_total;           // all tokens by all seconds, decoding
  std::optional<double> speedup_whole;           // the same with prefill
  std::optional<double> draft_step_cost;         // per drafted token, keeping the draft's states true included
  std::optional<double> verify_cost;             // one pass over the drafted tokens and one more
  std::optional<double> round_cost;              // a whole round
  int64_t equal = 0, ties = 0, unexplained = 0;  // answers against the target alone
};

struct Difference {
  std::string prompt_id;
  int draft_length = 0;
  int64_t position = 0;                              // of the first differing token in the answer
  int32_t plain_token = -1, speculative_token = -1;  // -1: that answer had ended
  std::optional<double> gap;                         // the larger of both runs' top-2 logit gaps there
  bool tie = false;
  std::string sentence;
};

// One answer, one way.
struct AnswerTimes {
  int draft_length = 0;
  int64_t tokens = 0, rounds = 0;
  double prefill_s = 0, decode_s = 0;
};
struct PromptResult {
  std::string id;
  int64_t prompt_tokens = 0;
  std::vector<AnswerTimes> ways;  // in the order of BenchResult::ways
};

// An answer for people: pieces of its text, each either guessed by the draft and kept, or made by the target.
struct AnswerPiece {
  std::string text;
  bool drafted = false;
};
struct SampleAnswer {
  std::string prompt_id, prompt, plain_text;
  int draft_length = 0;
  std::vector<AnswerPiece> pieces;  // of the answer with the draft
  bool equal = false;               // to the plain answer
  int64_t tokens = 0, rounds = 0;
  std::optional<double> speedup;
};

struct BenchResult {
  BenchSubject subject;
  std::string description;  // models, engine, threads, as the decoder says
  std::string weight_type;
  std::string made_at;        // UTC
  int64_t prompts_asked = 0;  // may be more than prompts.size() when the time limit ended it
  int max_tokens = 0;
  double temperature = 0;
  int threads = 0;                       // 0 = all cores
  double plain_step_s = 0;               // one token of the target alone
  std::vector<WayResult> ways;           // the target alone first
  std::optional<int> best_draft_length;  // highest speedup_total
  double tie_gap = 0;                    // tolerance used
  std::optional<double> noise;           // largest change of a top-2 gap between two ways that agreed on the token
  std::vector<Difference> differences;
  std::vector<PromptResult> prompts;
  std::vector<SampleAnswer> samples;
  bool failed = false;        // an unexplained difference: the outputs are not the target's
  std::string verdict;        // one or two sentences for people
  std::string cost_sentence;  // why it pays or not

  const WayResult* way(int draft_length) const;
  const WayResult* best() const;
};

// Opens target and draft, measures, writes <run>/bench/<label>/results.json, and shows progress. kInvalid before
// anything is measured when the two do not fit; `failed` in the result, not an Error, when answers differ.
Result<BenchResult> bench(const BenchSubject& subject, const std::vector<Prompt>& prompts, const BenchConfig& config,
                          RunFolder& run, std::stop_token stop);

// --- the parts, for tests and for decoders of other engines
// -------------------------------------------------------------

struct BenchPrompt {
  std::string id, text;
  std::vector<int32_t> ids;
};

// What the measuring loop needs of an engine. Times come with each answer, so a fake one brings its own clock.
struct BenchEngine {
  std::function<Result<Decoded>(const DecodeRequest&, std::stop_token)> decode;
  // Called after each answer: prompts done so far, and the answer. May be empty.
  std::function<void(const BenchPrompt&, const DecodeRequest&, const Decoded&)> on_answer;
  std::function<double()> now_s;  // for the time limit
};

// What a measuring loop leaves: the numbers, and the answers whose text is wanted.
struct KeptAnswer {
  size_t prompt = 0;
  Decoded plain;
  std::vector<std::pair<int, Decoded>> speculative;  // by draft length
};
struct Measured {
  BenchResult result;
  std::vector<KeptAnswer> kept;  // the first sample_count
};
Result<Measured> measure(const std::vector<BenchPrompt>& prompts, const BenchConfig& config,
                         const std::string& weight_type, const BenchEngine& engine, std::stop_token stop = {});

// Largest top-2 logit gap (raw logits) at which rounding of these weights could make one-row and many-row passes choose
// differently, whatever the noise that was seen.
double tie_tolerance(const std::string& weight_type, const std::string& kv_type);

// "drafting a token costs 0.31 of a plain step and checking 5 at once costs 3.90: ..."
std::string cost_sentence(const WayResult& way);

// How many answers are the target's own, and what explains the others.
std::string equality_sentence(const BenchResult& result);
// Who wins, by how much, and whether the answers stayed the same; one paragraph.
std::string bench_verdict(const BenchResult& result);

// Cuts an answer into drafted and target-made pieces at places where its text can be cut.
std::vector<AnswerPiece> answer_pieces(const Decoded& answer,
                                       const std::function<Result<std::string>(std::span<const int32_t>)>& detokenize);

std::string results_json(const BenchResult& result);
Result<BenchResult> parse_results(std::string_view json, const std::string& where);
Result<BenchResult> read_results(FileSystem& fs, const std::string& path);
// A table of 100 columns at most, with the verdict under it.
std::string bench_table(const BenchResult& result);

}  // namespace aerie
