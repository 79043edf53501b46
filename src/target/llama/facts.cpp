#include "target/llama/facts.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "ggml.h"
#include "target/llama/dequantize.h"

namespace aerie::llama {
namespace {

std::string type_name(uint32_t type) {
  if (type >= GGML_TYPE_COUNT) return "type " + std::to_string(type);
  std::string name = ggml_type_name(static_cast<ggml_type>(type));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// The type that holds most bytes.
std::string most_common_type(const GgufFile& gguf) {
  std::map<uint32_t, uint64_t> bytes;
  for (const GgufTensor& tensor : gguf.tensors()) bytes[tensor.type] += tensor.bytes.size();
  const auto most = std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "none" : type_name(most->first);
}

void add_value(Sha256& hash, const GgufValue& value) {
  hash.add("(" + std::to_string(value.type) + "," + std::to_string(value.element_type) + "," + std::to_string(value.values.size()) + ")");
  for (const GgufScalar& scalar : value.values) {
    if (const auto* text = std::get_if<std::string>(&scalar)) hash.add(std::to_string(text->size()) + ":").add(*text);
    if (const auto* integer = std::get_if<int64_t>(&scalar)) hash.add(std::to_string(*integer) + ";");
    if (const auto* truth = std::get_if<bool>(&scalar)) hash.add(*truth ? "t" : "f");
    if (const auto* number = std::get_if<double>(&scalar)) hash.add({reinterpret_cast<const std::byte*>(number), sizeof *number});
  }
}

// Names, types, shapes and a sample of every tensor's bytes (first, middle and last 4 KiB: a fine-tune changes all of
// them), what the architecture is told (RoPE scaling and the like), the tokenizer and the chat template. Reads 12 KiB a
// tensor, however large the model.
std::string weights_fingerprint(const GgufFile& gguf, const std::string& architecture) {
  constexpr size_t kSample = 4096;
  Sha256 hash;
  for (const GgufTensor& tensor : gguf.tensors()) {
    hash.add(tensor.name + " " + std::to_string(tensor.type));
    for (int64_t n : tensor.ne) hash.add(" " + std::to_string(n));
    for (size_t at : {size_t{0}, tensor.bytes.size() / 2, tensor.bytes.size() - std::min(kSample, tensor.bytes.size())})
      hash.add(tensor.bytes.subspan(at, std::min(kSample, tensor.bytes.size() - at)));
  }
  for (const auto& [key, value] : gguf.metadata())
    if (key.starts_with("tokenizer.") || key.starts_with(architecture + ".")) {
      hash.add(key);
      add_value(hash, value);
    }
  return hash.hex();
}

int int_of(const GgufFile& gguf, const std::string& key, int otherwise) {
  const auto value = gguf.integer(key);
  return value ? static_cast<int>(*value) : otherwise;
}

double number_of(const GgufFile& gguf, const std::string& key, double otherwise) {
  const auto value = gguf.number(key);
  return value ? *value : otherwise;
}

Result<int> needed(const GgufFile& gguf, const std::string& key, const std::string& path) {
  const auto value = gguf.integer(key);
  if (!value || *value <= 0 || *value > (1 << 28)) return invalid(path + " is no language model: its GGUF metadata has no usable " + key);
  return static_cast<int>(*value);
}

}  // namespace

Result<TargetFacts> read_facts(const GgufFile& gguf, const std::string& path) {
  TargetFacts facts;
  facts.engine = "llama";
  facts.model_path = path;
  TRY(facts.architecture, gguf.text("general.architecture"));
  const std::string& arch = facts.architecture;
  if (arch == "eagle3") return invalid(path + " is an EAGLE-3 draft, and a target is needed here: name the model it was trained for");
  const auto parts = gguf.integer("split.count");
  if (parts && *parts > 1)
    return invalid(path + " is one of " + std::to_string(*parts) + " parts of a model: make them one file with llama.cpp's llama-gguf-split --merge");
  TRY(facts.layer_count, needed(gguf, arch + ".block_count", path));
  TRY(facts.hidden_size, needed(gguf, arch + ".embedding_length", path));
  const GgufValue* causal = gguf.find(arch + ".attention.causal");
  if (causal != nullptr && !causal->values.empty() && causal->values[0] == GgufScalar(false))
    return invalid(path + " attends to both sides (" + arch + ".attention.causal is false): a target must write from left to right");
  facts.intermediate_size = int_of(gguf, arch + ".feed_forward_length", 0);
  facts.head_count = int_of(gguf, arch + ".attention.head_count", 0);
  facts.kv_head_count = int_of(gguf, arch + ".attention.head_count_kv", facts.head_count);
  facts.head_size = int_of(gguf, arch + ".attention.key_length", facts.head_count > 0 ? facts.hidden_size / facts.head_count : 0);
  facts.context_length = int_of(gguf, arch + ".context_length", 0);
  facts.rms_norm_eps = number_of(gguf, arch + ".attention.layer_norm_rms_epsilon", 1e-5);
  facts.rope_theta = number_of(gguf, arch + ".rope.freq_base", 10000);
  const auto name = gguf.text("general.name");
  facts.name = name ? *name : path.substr(path.find_last_of('/') + 1);
  const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || !tokens->array()) return invalid(path + " has no tokenizer.ggml.tokens: a target brings its own tokenizer");
  const GgufTensor* embeddings = gguf.find_tensor("token_embd.weight");
  if (embeddings == nullptr || embeddings->ne.size() != 2 || embeddings->ne[0] != facts.hidden_size)
    return invalid(path + " has no token_embd.weight of width " + std::to_string(facts.hidden_size) + ": it is no language model that can be a target");
  facts.vocab_size = static_cast<int>(embeddings->ne[1]);
  facts.tied_embeddings = gguf.find_tensor("output.weight") == nullptr;
  facts.bos_id = int_of(gguf, "tokenizer.ggml.bos_token_id", -1);
  facts.eos_id = int_of(gguf, "tokenizer.ggml.eos_token_id", -1);
  const auto chat_template = gguf.text("tokenizer.chat_template");
  if (chat_template) facts.chat_template = *chat_template;
  facts.weight_type = most_common_type(gguf);
  facts.weights_fingerprint = weights_fingerprint(gguf, arch);
  return facts;
}

Result<TargetHead> read_head(const GgufFile& gguf, const TargetFacts& facts) {
  const auto floats = [&](const char* name) -> Result<std::vector<float>> {
    const GgufTensor* tensor = gguf.find_tensor(name);
    if (tensor == nullptr) return invalid(facts.model_path + " has no tensor " + name + ", which training needs");
    return floats_of(*tensor);
  };
  TargetHead head;
  TRY(head.norm, floats("output_norm.weight"));
  TRY(head.embeddings, floats("token_embd.weight"));
  if (facts.tied_embeddings) {
    head.lm_head = head.embeddings;
  } else {
    TRY(head.lm_head, floats("output.weight"));
  }
  const size_t table = static_cast<size_t>(facts.vocab_size) * static_cast<size_t>(facts.hidden_size);
  if (head.norm.size() != static_cast<size_t>(facts.hidden_size) || head.lm_head.size() != table || head.embeddings.size() != table)
    return invalid(facts.model_path + ": the shapes of output_norm, output and token_embd do not fit " + std::to_string(facts.vocab_size) +
                   " tokens of width " + std::to_string(facts.hidden_size));
  return head;
}

}  // namespace aerie::llama
