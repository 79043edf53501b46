#include "draft/decoder.h"

#include <algorithm>

namespace aerie {

void DecoderConfig::fields(FieldList& v) {
  v("target", target, "GGUF of the target");
  v("draft", draft, "GGUF of the draft; empty = the target alone");
  v("target_fingerprint", target_fingerprint, "what the draft must have been trained for; empty = not compared");
  v("context", context, "tokens of prompt and answer together").range(16, 1 << 20);
  v("batch", batch, "rows of one prefill pass").range(1, 8192);
  v("threads", threads, "threads; 0 = all cores").range(0, 1024);
  v("kv_type", kv_type, "type of the target's KV cache").one_of({"f16", "f32", "q8_0"});
  v("flash_attention", flash_attention, "use flash attention");
}

double Decoded::acceptance_length() const {
  return accepted.empty() ? 0.0 : static_cast<double>(ids.size()) / static_cast<double>(accepted.size());
}

std::vector<double> Decoded::acceptance_by_position() const {
  const int longest = drafted.empty() ? 0 : *std::max_element(drafted.begin(), drafted.end());
  std::vector<double> shares;
  for (int i = 0; i < longest; ++i) {
    int tried = 0, held = 0;
    for (size_t round = 0; round < drafted.size(); ++round) {
      tried += drafted[round] > i;
      held += accepted[round] > i;
    }
    shares.push_back(tried > 0 ? static_cast<double>(held) / tried : 0.0);
  }
  return shares;
}

OutputComparison compare_outputs(const Decoded& plain, const Decoded& speculative) {
  OutputComparison result;
  const size_t common = std::min(plain.ids.size(), speculative.ids.size());
  size_t at = 0;
  while (at < common && plain.ids[at] == speculative.ids[at]) ++at;
  result.first_difference = at;
  result.equal = at == plain.ids.size() && at == speculative.ids.size();
  if (result.equal) return result;
  if (at < plain.gaps.size()) result.gap_plain = plain.gaps[at];
  if (at < speculative.gaps.size()) result.gap_speculative = speculative.gaps[at];
  return result;
}

#ifndef AERIE_HAVE_LLAMA
Status check_draft_fits(const std::string&, const std::string&, std::string_view) {
  return invalid("this aerie was built without llama.cpp, so it cannot say which drafts llama.cpp can serve");
}

Result<DraftBinding> draft_binding(const std::string&, const std::string&) {
  return invalid("this aerie was built without llama.cpp, so it cannot say which target a draft is bound to");
}

Result<std::unique_ptr<SpeculativeDecoder>> SpeculativeDecoder::open(const DecoderConfig&) {
  return invalid("this aerie was built without llama.cpp, so it cannot decode; run scripts/bootstrap and build again");
}
#endif

}  // namespace aerie
