// Hugging Face folders of SpecForge, SGLang, vLLM, ModelOpt and speculators.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "draft/layout.h"
#include "draft/load_formats.h"
#include "target/boundaries.h"
#include "target/target.h"
#include "tensor/safetensors.h"

namespace aerie::layout {
namespace {

using Json = nlohmann::json;

// What is too large becomes a size that check_shape() refuses, and no boundary; one can still be added to it.
int int_of(const Json& number) {
  constexpr int64_t kMost = 1 << 30;
  return static_cast<int>(std::clamp(number.get<int64_t>(), -kMost, kMost));
}

// Values of a config, asked by name; a value of the wrong kind is an error that names it.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  Result<int> integer(const char* key) const {
    if (!json_.contains(key) || !json_[key].is_number_integer())
      return invalid(fmt::format("{} has no integer '{}'", where_, key));
    return int_of(json_[key]);
  }
  Result<int> integer_or(const char* key, int fallback) const {
    if (!json_.contains(key) || json_[key].is_null()) return fallback;
    return integer(key);
  }
  double number_or(const Json& from, const char* key, double fallback) const {
    return from.contains(key) && from[key].is_number() ? from[key].get<double>() : fallback;
  }
  bool flag_or(const char* key, bool fallback) const {
    return json_.contains(key) && json_[key].is_boolean() ? json_[key].get<bool>() : fallback;
  }

 private:
  const Json& json_;
  std::string where_;
};

std::string text_or_empty(const Json& from, const char* key) {
  return from.contains(key) && from[key].is_string() ? from[key].get<std::string>() : std::string();
}

bool is_plain_rope(const Json& rope) {
  if (!rope.is_object()) return true;
  const std::string type = text_or_empty(rope, rope.contains("rope_type") ? "rope_type" : "type");
  return type.empty() || type == "default";
}

Result<DraftShape> shape_of(const Json& config, const std::string& where) {
  const bool speculators = config.contains("transformer_layer_config");
  const Json& layer = speculators ? config["transformer_layer_config"] : config;
  const ConfigReader inner(layer, where), outer(config, where);
  DraftShape s;
  TRY(s.hidden_size, inner.integer("hidden_size"));
  TRY(s.intermediate_size, inner.integer("intermediate_size"));
  TRY(s.head_count, inner.integer("num_attention_heads"));
  TRY(s.kv_head_count, inner.integer_or("num_key_value_heads", s.head_count));
  TRY(s.head_size, inner.integer_or("head_dim", s.head_count > 0 ? s.hidden_size / s.head_count : 0));
  TRY(s.vocab_size, inner.integer("vocab_size"));
  TRY(s.draft_vocab_size, outer.integer_or("draft_vocab_size", s.vocab_size));
  TRY(s.target_hidden_size, outer.integer_or("target_hidden_size", s.hidden_size));
  TRY(s.context_length, inner.integer("max_position_embeddings"));
  TRY(const int layers, inner.integer_or("num_hidden_layers", 1));
  if (layers != 1) return invalid(fmt::format("{}: {} draft layers; Aerie knows drafts of one layer", where, layers));
  s.rms_norm_eps = inner.number_or(layer, "rms_norm_eps", 1e-5);
  const Json rope = layer.value("rope_parameters", Json());
  if (!is_plain_rope(rope) || !is_plain_rope(layer.value("rope_scaling", Json()))) {
    return invalid(where + ": the draft scales its RoPE, which Aerie's trainer and reference decoder do not know");
  }
  s.rope_theta = inner.number_or(layer, "rope_theta", inner.number_or(rope, "rope_theta", 10000));
  // A file without the flag: speculators' loader takes true (as vLLM does), all others false.
  s.norm_before_residual = outer.flag_or("norm_before_residual", speculators);
  s.norm_before_fc = outer.flag_or("norm_before_fc", false);
  s.fc_norm = outer.flag_or("fc_norm", false);
  s.norm_output = outer.flag_or("norm_output", false);
  return s;
}

std::vector<int> integers(const Json& array) {
  std::vector<int> ids;
  if (!array.is_array()) return ids;
  for (const Json& id : array) {
    if (id.is_number_integer()) ids.push_back(int_of(id));
  }
  return ids;
}

// Boundaries as the file means them: ours are said; speculators and vLLM write boundaries; SpecForge's ids are layer
// outputs.
Result<std::vector<int>> boundaries_of(const Json& config, const std::string& where, int target_layer_count) {
  if (const Json aerie = config.value("aerie", Json()); aerie.is_object())
    return integers(aerie.value("boundaries", Json()));
  std::vector<int> ids = integers(config.value("eagle_aux_hidden_state_layer_ids", Json()));
  if (ids.empty())
    ids = integers(config.value("eagle_config", Json::object()).value("eagle_aux_hidden_state_layer_ids", Json()));
  if (ids.empty()) {
    auto usual = default_boundaries(target_layer_count);
    return usual ? *std::move(usual) : ids;  // absent: the caller decides
  }
  if (ids.size() != 3)
    return invalid(fmt::format("{} names {} layers; Aerie knows drafts of three", where, ids.size()));
  const std::vector<std::string> names = config.value("architectures", std::vector<std::string>());
  const bool outputs = std::find(names.begin(), names.end(), "LlamaForCausalLMEagle3") != names.end();
  if (outputs) std::transform(ids.begin(), ids.end(), ids.begin(), boundary_of_output_id);
  return ids;
}

Status read_tensors(const SafetensorsFile& file, LoadedDraft& loaded) {
  const DraftShape& shape = loaded.checkpoint.shape;
  for (const TensorView& view : file.tensors()) {
    const std::string name = from_hf_name(view.name);
    if (name == "t2d") continue;  // follows from d2t
    if (name == "embed_tokens.weight") {
      TRY(loaded.embeddings, to_floats(view));
      continue;
    }
    if (name == "d2t") {
      TRY(const std::vector<int64_t> offsets, to_int64(view));
      loaded.checkpoint.tensors.push_back(tensor_i64(name, view.shape, offsets));
      continue;
    }
    if (name == "fc.weight") loaded.weight_type = std::string(name_of(view.dtype));
    TRY(const std::vector<float> values, to_floats(view));
    loaded.checkpoint.tensors.push_back(tensor_f32(name, view.shape, values));
  }
  if (loaded.checkpoint.find("d2t") != nullptr) return ok_status();
  if (shape.draft_vocab_size != shape.vocab_size) {
    return invalid(
        fmt::format("{} has no d2t, though the draft speaks {} of {} tokens: an engine would take draft ids for target "
                    "ids",
                    file.path(), shape.draft_vocab_size, shape.vocab_size));
  }
  // Before anything of the claimed size is made: the file has as many rows.
  const Tensor* head = loaded.checkpoint.find("lm_head.weight");
  if (head == nullptr || head->shape != Shape{shape.draft_vocab_size, shape.hidden_size}) {
    return invalid(fmt::format("{} has neither d2t nor an lm_head of {} rows and {} columns", file.path(),
                               shape.draft_vocab_size, shape.hidden_size));
  }
  const std::vector<int64_t> zeros(static_cast<size_t>(shape.vocab_size), 0);
  loaded.checkpoint.tensors.push_back(tensor_i64("d2t", {shape.vocab_size}, zeros));
  return ok_status();
}

void order_as_expected(Checkpoint& checkpoint) {
  const auto expected = expected_tensors(checkpoint.shape);
  const auto place = [&](const Tensor& tensor) {
    return std::find_if(expected.begin(), expected.end(), [&](const auto& e) { return e.first == tensor.name; }) -
           expected.begin();
  };
  std::stable_sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                   [&](const Tensor& a, const Tensor& b) { return place(a) < place(b); });
}

Result<LoadedDraft> draft_of(const Json& config, const std::string& where, const std::string& weights,
                             int target_layer_count) {
  LoadedDraft loaded;
  Checkpoint& c = loaded.checkpoint;
  loaded.format = config.contains("transformer_layer_config") ? "speculators" : "hf";
  TRY(c.shape, shape_of(config, where));
  if (Status sane = check_shape(c.shape); !sane) return std::move(sane).error().under(where);
  const Json aerie = config.value("aerie", Json::object());
  c.shape.normed_logits = !aerie.is_object() || aerie.value("normed_logits", true);
  c.target_fingerprint = text_or_empty(aerie, "target_fingerprint");
  c.target_name = text_or_empty(aerie, "target_name");
  c.ttt_steps = aerie.value("ttt_steps", 0);
  c.step = aerie.value("step", int64_t{0});
  TRY(c.boundaries, boundaries_of(config, where, target_layer_count));
  c.target_layer_count = aerie.value("target_layer_count", target_layer_count);
  if (c.target_layer_count == 0 && !c.boundaries.empty()) c.target_layer_count = c.boundaries.back() + 1;  // at least
  TRY(const SafetensorsFile file, SafetensorsFile::open(weights));
  CHECKED(read_tensors(file, loaded));
  order_as_expected(c);
  return loaded;
}

}  // namespace

Result<LoadedDraft> load_hf(FileSystem& fs, const std::string& folder, int target_layer_count) {
  const std::string where = folder + "/config.json";
  const std::string weights = folder + "/model.safetensors";
  TRY(const std::string text, read_file(fs, where, 16u << 20));
  TRY(const bool there, fs.exists(weights));
  if (!there) {
    return not_found(
        fmt::format("{} is not there; Aerie reads drafts from one safetensors file (convert .bin files or merge "
                    "shards first)",
                    weights));
  }
  const Json config = Json::parse(text, nullptr, false);
  if (!config.is_object()) return corrupt(where + " is not a JSON object");
  try {
    return draft_of(config, where, weights, target_layer_count);
  } catch (const Json::exception& e) {  // a value of another kind than its name promises
    return invalid(fmt::format("{}: {}", where, e.what()));
  }
}

}  // namespace aerie::layout
