// Does this draft file fit this target file? Asked of their metadata, because llama.cpp aborts the process where it
// does not.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "draft/decoder.h"
#include "target/llama/llama_private.h"
#include "target/target.h"
#include "tensor/gguf.h"

namespace aerie {
namespace {

std::vector<int64_t> integers(const GgufFile& file, std::string_view key) {
  std::vector<int64_t> numbers;
  const GgufValue* value = file.find(key);
  if (value == nullptr || !value->array()) return numbers;
  for (const GgufScalar& v : value->values) {
    if (std::holds_alternative<int64_t>(v)) numbers.push_back(std::get<int64_t>(v));
  }
  return numbers;
}

// Both files with what of them is compared; errors start with the two paths.
struct Pair {
  const GgufFile& target;
  const GgufFile& draft;
  std::string target_path, draft_path;

  Error no(std::string_view why) const {
    return invalid(fmt::format("the draft {} does not fit the target {}: {}", draft_path, target_path, why));
  }
};

Status check_architecture(const Pair& pair, const std::string& target_architecture) {
  TRY(const std::string architecture, pair.draft.text("general.architecture"));
  if (architecture != "eagle3") return pair.no(fmt::format("its architecture is '{}', not 'eagle3'", architecture));
  TRY(const int64_t layers, pair.draft.integer("eagle3.block_count"));
  if (layers != 1) return pair.no(fmt::format("it has {} layers, and llama.cpp decodes drafts of one", layers));
  if (!has_layer_input_hooks(target_architecture)) {
    return pair.no(
        fmt::format("llama.cpp cannot show the layer inputs of the target's architecture '{}'", target_architecture));
  }
  return ok_status();
}

Status check_width_and_boundaries(const Pair& pair, const std::string& target_architecture) {
  TRY(const int64_t width, pair.target.integer(target_architecture + ".embedding_length"));
  TRY(const int64_t layers, pair.target.integer(target_architecture + ".block_count"));
  TRY(const int64_t expected, pair.draft.integer("eagle3.target_hidden_size"));
  TRY(const int64_t own, pair.draft.integer("eagle3.embedding_length"));
  if (expected != width)
    return pair.no(fmt::format("it takes hidden states of {} numbers, the target's have {}", expected, width));
  const bool own_table = pair.draft.find_tensor("token_embd.weight") != nullptr;
  if (!own_table && own != width) {
    return pair.no(
        fmt::format("it is {} wide and has no embeddings of its own, and the target's are {} wide", own, width));
  }
  const std::vector<int64_t> boundaries = integers(pair.draft, "eagle3.target_layers");
  const bool inside =
      std::all_of(boundaries.begin(), boundaries.end(), [&](int64_t b) { return b >= 0 && b < layers; });
  if (boundaries.size() != 3 || !inside) {
    return pair.no(fmt::format("its boundaries [{}] are not three layer inputs of a target of {} layers",
                               fmt::join(boundaries, ", "), layers));
  }
  const GgufTensor* fc = pair.draft.find_tensor("fc.weight");
  if (fc == nullptr || fc->ne != std::vector<int64_t>{3 * width, own}) {
    return pair.no(fmt::format("its fc.weight is not [{}, {}]", own, 3 * width));
  }
  return ok_status();
}

Status check_tokens(const Pair& pair) {
  const GgufValue* ours = pair.target.find("tokenizer.ggml.tokens");
  const GgufValue* theirs = pair.draft.find("tokenizer.ggml.tokens");
  if (ours == nullptr || theirs == nullptr) return pair.no("one of them holds no tokens");
  if (ours->values.size() != theirs->values.size()) {
    return pair.no(
        fmt::format("it was made for {} tokens, the target has {}", theirs->values.size(), ours->values.size()));
  }
  const auto [a, b] = std::mismatch(ours->values.begin(), ours->values.end(), theirs->values.begin());
  if (a != ours->values.end()) return pair.no(fmt::format("token {} differs between them", a - ours->values.begin()));
  return ok_status();
}

// Shapes that llama.cpp asserts in the middle of a decode rather than at load.
Status check_head(const Pair& pair) {
  TRY(const int64_t width, pair.draft.integer("eagle3.embedding_length"));
  const GgufTensor* head = pair.draft.find_tensor("output.weight");
  const GgufTensor* map = pair.draft.find_tensor("d2t");
  const auto vocab = static_cast<int64_t>(pair.draft.find("tokenizer.ggml.tokens")->values.size());
  if (head == nullptr) return map == nullptr ? ok_status() : Status(pair.no("it has d2t but no output.weight"));
  if (head->ne.size() != 2 || head->ne[0] != width) return pair.no("its output.weight is not as wide as its states");
  if (map == nullptr) {
    return head->ne[1] == vocab ? ok_status() : Status(pair.no("its output.weight is reduced, and d2t is missing"));
  }
  if (map->type != static_cast<uint32_t>(GgmlType::kI64) || map->ne != std::vector<int64_t>{head->ne[1]}) {
    return pair.no("its d2t is not one I64 for each row of output.weight");
  }
  TRY(const std::vector<int64_t> ids, to_int64(TensorView{"d2t", DType::kI64, map->ne, map->bytes}));
  if (!std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id >= 0 && id < vocab; })) {
    return pair.no("its d2t leads outside the vocabulary");
  }
  return ok_status();
}

Status check_fingerprint(const Pair& pair, std::string_view target_fingerprint) {
  if (target_fingerprint.empty()) return ok_status();
  auto theirs = pair.draft.text("aerie.target_fingerprint");
  if (!theirs || theirs->empty()) {
    return pair.no(
        "it does not say which target it was trained for; export it with aerie, or leave the fingerprint unchecked");
  }
  if (*theirs == target_fingerprint) return ok_status();
  auto name = pair.draft.text("aerie.target_name");
  return pair.no(
      fmt::format("it was trained for '{}' with fingerprint {}, and this target's is {} (other weights, quantisation, "
                  "tokenizer, chat template or boundaries)",
                  name ? *name : std::string("?"), *theirs, target_fingerprint));
}

}  // namespace

Status check_draft_fits(const std::string& target_gguf, const std::string& draft_gguf,
                        std::string_view target_fingerprint) {
  TRY(const GgufFile target, GgufFile::open(target_gguf));
  TRY(const GgufFile draft, GgufFile::open(draft_gguf));
  const Pair pair{target, draft, target_gguf, draft_gguf};
  TRY(const std::string architecture, target.text("general.architecture"));
  CHECKED(check_architecture(pair, architecture));
  CHECKED(check_width_and_boundaries(pair, architecture));
  CHECKED(check_tokens(pair));
  CHECKED(check_head(pair));
  return check_fingerprint(pair, target_fingerprint);
}

Result<DraftBinding> draft_binding(const std::string& target_gguf, const std::string& draft_gguf) {
  TRY(const TargetFacts facts, read_target_facts(target_gguf));
  TRY(const GgufFile draft, GgufFile::open(draft_gguf));
  std::vector<int> boundaries;
  for (const int64_t boundary : integers(draft, "eagle3.target_layers")) boundaries.push_back(static_cast<int>(boundary));
  const auto fingerprint = draft.text("aerie.target_fingerprint");
  return DraftBinding{target_fingerprint(facts, boundaries), fingerprint && !fingerprint->empty()};
}

}  // namespace aerie
