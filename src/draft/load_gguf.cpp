#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "draft/layout.h"
#include "draft/load_formats.h"

namespace aerie::layout {
namespace {

// What is too large becomes a size that check_shape() refuses, and no boundary; one can still be added to it.
int clamped(int64_t value) {
  constexpr int64_t kMost = 1 << 30;
  return static_cast<int>(std::clamp(value, -kMost, kMost));
}

// A key of the file as a number, or the fallback when the file leaves it out.
int integer_or(const GgufFile& file, const std::string& key, int fallback) {
  auto value = file.integer(key);
  return value ? clamped(*value) : fallback;
}

bool flag(const GgufFile& file, const std::string& key) {
  const GgufValue* value = file.find(key);
  return value != nullptr && value->values.size() == 1 && std::holds_alternative<bool>(value->values[0]) &&
         std::get<bool>(value->values[0]);
}

std::vector<int> integers(const GgufFile& file, const std::string& key) {
  std::vector<int> numbers;
  const GgufValue* value = file.find(key);
  if (value == nullptr || !value->array()) return numbers;
  for (const GgufScalar& v : value->values) {
    if (std::holds_alternative<int64_t>(v)) numbers.push_back(clamped(std::get<int64_t>(v)));
  }
  return numbers;
}

Result<DraftShape> shape_of(const GgufFile& file) {
  const auto required = [&](const char* key) { return file.integer(std::string("eagle3.") + key); };
  DraftShape shape;
  TRY(const int64_t width, required("embedding_length"));
  TRY(const int64_t target_width, required("target_hidden_size"));
  TRY(const int64_t inner, required("feed_forward_length"));
  TRY(const int64_t heads, required("attention.head_count"));
  TRY(const int64_t context, required("context_length"));
  TRY(shape.rms_norm_eps, file.number("eagle3.attention.layer_norm_rms_epsilon"));
  TRY(shape.rope_theta, file.number("eagle3.rope.freq_base"));
  shape.hidden_size = clamped(width);
  shape.target_hidden_size = clamped(target_width);
  shape.intermediate_size = clamped(inner);
  shape.head_count = clamped(heads);
  shape.kv_head_count = integer_or(file, "eagle3.attention.head_count_kv", shape.head_count);
  shape.head_size = integer_or(file, "eagle3.attention.key_length", shape.hidden_size / std::max(1, shape.head_count));
  shape.context_length = clamped(context);
  shape.norm_before_residual = flag(file, "eagle3.norm_before_residual");
  shape.norm_before_fc = flag(file, "eagle3.norm_before_fc");
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || !tokens->array())
    return corrupt("no tokenizer.ggml.tokens, from which the vocabulary's size comes");
  shape.vocab_size = clamped(static_cast<int64_t>(tokens->values.size()));
  const GgufTensor* head = file.find_tensor("output.weight");
  if (head == nullptr || head->ne.size() != 2) {
    return invalid("no output.weight: a draft that borrows the target's lm_head cannot be read alone");
  }
  shape.draft_vocab_size = clamped(head->ne[1]);
  CHECKED(check_shape(shape));
  // Floats of the file were doubles once: 1e-5 must not come back as 0.0000099999997.
  // strtod, because stod throws at a number that is nearly 0.
  shape.rms_norm_eps = std::strtod(fmt::format("{:.7g}", shape.rms_norm_eps).c_str(), nullptr);
  return shape;
}

Result<Tensor> map_of(const GgufFile& file, const DraftShape& shape) {
  std::vector<int64_t> offsets;
  if (const GgufTensor* map = file.find_tensor("d2t"); map != nullptr) {
    if (map->type != static_cast<uint32_t>(GgmlType::kI64)) return corrupt("tensor 'd2t' is not I64");
    TRY(offsets, to_int64(TensorView{"d2t", DType::kI64, map->ne, map->bytes}));
    // GGUF holds target ids. Any bytes may stand there: wraps, does not overflow.
    for (size_t i = 0; i < offsets.size(); ++i)
      offsets[i] = static_cast<int64_t>(static_cast<uint64_t>(offsets[i]) - i);
  } else if (shape.draft_vocab_size != shape.vocab_size) {
    return invalid(
        fmt::format("no d2t, though the draft speaks {} of {} tokens", shape.draft_vocab_size, shape.vocab_size));
  } else {
    offsets.assign(static_cast<size_t>(shape.vocab_size), 0);  // as many as the file lists tokens
  }
  const Shape dims{static_cast<int64_t>(offsets.size())};
  return tensor_i64("d2t", dims, offsets);
}

Result<Tensor> weight_of(const GgufFile& file, const std::string& name, const Shape& dims, const DraftShape& shape) {
  const std::string there = gguf_name(name);
  const GgufTensor* tensor = file.find_tensor(there);
  if (tensor == nullptr) return corrupt(fmt::format("tensor '{}' is missing", there));
  const Shape found(tensor->ne.rbegin(), tensor->ne.rend());
  if (found != dims)
    return corrupt(fmt::format("tensor '{}' is {} and must be {}", there, shape_text(found), shape_text(dims)));
  TRY(std::vector<float> values, decode_gguf(*tensor));
  if (rows_are_permuted(name)) values = to_half_split_rows(values, dims.back(), shape.head_size);
  return tensor_f32(name, dims, values);
}

Result<LoadedDraft> draft_of(const GgufFile& file) {
  TRY(const std::string architecture, file.text("general.architecture"));
  if (architecture != "eagle3") return invalid(fmt::format("architecture '{}' is no EAGLE-3 draft", architecture));
  LoadedDraft loaded;
  loaded.format = "gguf";
  Checkpoint& c = loaded.checkpoint;
  TRY(c.shape, shape_of(file));
  if (integer_or(file, "eagle3.block_count", 0) != 1)
    return invalid("more than one draft layer, which Aerie does not know");

  std::set<std::string> known{"d2t", "token_embd.weight"};
  for (const auto& [name, dims] : expected_tensors(c.shape)) {
    if (name == "d2t") {
      TRY(Tensor map, map_of(file, c.shape));
      c.tensors.push_back(std::move(map));
      continue;
    }
    known.insert(gguf_name(name));
    TRY(Tensor tensor, weight_of(file, name, dims, c.shape));
    c.tensors.push_back(std::move(tensor));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (!known.contains(tensor.name))
      return invalid(fmt::format("tensor '{}' belongs to no draft that Aerie knows", tensor.name));
  }
  loaded.weight_type = ggml_text(file.find_tensor("fc.weight")->type);
  if (const GgufTensor* table = file.find_tensor("token_embd.weight"); table != nullptr) {
    TRY(loaded.embeddings, decode_gguf(*table));
  }
  c.boundaries = integers(file, "eagle3.target_layers");
  if (c.boundaries.size() != 3) return invalid("eagle3.target_layers does not name three boundaries");
  c.target_layer_count = integer_or(file, "aerie.target_layer_count", c.boundaries.back() + 1);
  if (auto text = file.text("aerie.target_fingerprint")) c.target_fingerprint = *text;
  if (auto text = file.text("aerie.target_name")) c.target_name = *text;
  c.ttt_steps = integer_or(file, "aerie.ttt_steps", 0);
  c.step = integer_or(file, "aerie.step", 0);
  return loaded;
}

}  // namespace

Result<LoadedDraft> load_gguf(const std::string& path) {
  TRY(const GgufFile file, GgufFile::open(path));
  auto loaded = draft_of(file);
  if (!loaded) return std::move(loaded).error().under(path);
  return loaded;
}

}  // namespace aerie::layout
