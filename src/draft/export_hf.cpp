// Hugging Face folders: model.safetensors and config.json for SGLang, vLLM and speculators.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "draft/export.h"
#include "draft/folder.h"
#include "draft/layout.h"
#include "target/boundaries.h"
#include "tensor/safetensors.h"

namespace aerie {
namespace {

using Json = nlohmann::ordered_json;

Result<Json> parsed_facts(const std::string& text) {
  if (text.empty()) return Json::object();
  Json facts = Json::parse(text, nullptr, false);
  if (!facts.is_object()) return invalid("the target's facts are not a JSON object: " + text.substr(0, 80));
  return facts;
}

std::string text_of(const Json& facts, const char* key) {
  return facts.contains(key) && facts[key].is_string() ? facts[key].get<std::string>() : std::string();
}

Json id_of(const Json& facts, const char* key) {
  if (!facts.contains(key) || !facts[key].is_number_integer() || facts[key].get<int64_t>() < 0) return nullptr;
  return facts[key];
}

Status refuse_what_engine_cannot(const Checkpoint& checkpoint, Flavor flavor) {
  const DraftShape& shape = checkpoint.shape;
  if (!shape.normed_logits) {
    return invalid(
        fmt::format("no engine computes logits from un-normed states (normed_logits = false): the {} export would "
                    "draft nonsense; train without it",
                    name_of(flavor)));
  }
  if (flavor == Flavor::kSglang && shape.norm_before_residual) {
    return invalid("SGLang's EAGLE-3 has no norm_before_residual; export as vllm or speculators, or train without it");
  }
  if (checkpoint.boundaries.size() != 3) {
    return invalid(
        fmt::format("an EAGLE-3 export needs three boundaries, not [{}]", fmt::join(checkpoint.boundaries, ", ")));
  }
  return ok_status();
}

struct LayerIds {
  std::vector<int> ids;  // empty = left out on purpose
  std::string note;
};

// Every SGLang model takes {2, n/2, n-3} when a draft names no layers, while named ids are counted differently by
// different models: so the default is left unsaid. Otherwise ids are layer outputs, except where the model takes
// boundaries.
Result<LayerIds> sglang_layer_ids(const Checkpoint& checkpoint, const std::string& architecture) {
  const std::vector<int>& b = checkpoint.boundaries;
  if (boundaries_are_default(b, checkpoint.target_layer_count)) {
    return LayerIds{{}, "layer ids are left out: the boundaries are SGLang's own default"};
  }
  const bool takes_boundaries = architecture.find("gpt-oss") != std::string::npos ||
                                architecture.find("gpt_oss") != std::string::npos ||
                                (architecture.find("deepseek") != std::string::npos &&
                                 output_id_of_boundary(b.front()) != 1);
  if (takes_boundaries) return LayerIds{b, "layer ids are boundaries, as SGLang's " + architecture + " takes them"};
  if (b.front() == 0) {
    return invalid(
        "boundary 0 (the embeddings) has no layer id in SGLang's numbering; train with boundaries from 1 on");
  }
  if (b.back() == checkpoint.target_layer_count) {
    return invalid(fmt::format(
        "boundary {} is the target's last output, which SGLang does not capture for this architecture", b.back()));
  }
  return LayerIds{output_layer_ids(b), "layer ids are layer outputs (boundary - 1), as SGLang counts them"};
}

Result<LayerIds> layer_ids(const Checkpoint& checkpoint, Flavor flavor, const std::string& architecture) {
  if (flavor == Flavor::kSglang) return sglang_layer_ids(checkpoint, architecture);
  return LayerIds{checkpoint.boundaries, ""};
}

// What Transformers' LlamaConfig knows about the one layer. The draft was trained with plain RoPE of this base: both
// the newer and the older spelling are written, because readers differ.
Json llama_config(const Checkpoint& checkpoint, const Json& facts, std::string_view dtype) {
  const DraftShape& s = checkpoint.shape;
  Json c;
  c["model_type"] = "llama";
  c["hidden_size"] = s.hidden_size;
  c["intermediate_size"] = s.intermediate_size;
  c["num_attention_heads"] = s.head_count;
  c["num_key_value_heads"] = s.kv_head_count;
  c["head_dim"] = s.head_size;
  c["num_hidden_layers"] = 1;
  c["hidden_act"] = "silu";
  c["rms_norm_eps"] = s.rms_norm_eps;
  c["max_position_embeddings"] = s.context_length;
  c["rope_theta"] = s.rope_theta;
  c["rope_scaling"] = nullptr;
  c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", s.rope_theta}};
  c["vocab_size"] = s.vocab_size;
  c["tie_word_embeddings"] = false;
  c["attention_bias"] = false;
  c["attention_dropout"] = 0.0;
  c["mlp_bias"] = false;
  c["initializer_range"] = 0.02;
  c["pretraining_tp"] = 1;
  c["use_cache"] = true;
  c["bos_token_id"] = id_of(facts, "bos_id");
  c["eos_token_id"] = id_of(facts, "eos_id");
  c["pad_token_id"] = nullptr;
  c["torch_dtype"] = dtype;
  return c;
}

Json aerie_block(const Checkpoint& checkpoint, const LayerIds& ids) {
  // null: boundary n, which Hugging Face gives only after the final norm.
  Json hidden_states = Json::array();
  for (const int b : checkpoint.boundaries) {
    const int index = hugging_face_index_of_boundary(b, checkpoint.target_layer_count);
    hidden_states.push_back(index < 0 ? Json() : Json(index));
  }
  Json a;
  a["version"] = AERIE_VERSION;
  a["target_fingerprint"] = checkpoint.target_fingerprint;
  a["target_name"] = checkpoint.target_name;
  a["target_layer_count"] = checkpoint.target_layer_count;
  a["boundaries"] = checkpoint.boundaries;
  // Boundary b is the state entering layer b. The same three places as others number them:
  a["numberings"] = {{"boundaries", checkpoint.boundaries},
                     {"vllm", checkpoint.boundaries},
                     {"llama_cpp", checkpoint.boundaries},
                     {"hf_hidden_states", hidden_states},
                     {"layer_outputs", output_layer_ids(checkpoint.boundaries)},
                     {"written", ids.ids}};
  a["ttt_steps"] = checkpoint.ttt_steps;
  a["step"] = checkpoint.step;
  a["normed_logits"] = checkpoint.shape.normed_logits;
  return a;
}

Json native_config(const Checkpoint& checkpoint, Flavor flavor, const LayerIds& ids, const Json& facts,
                   std::string_view dtype) {
  const DraftShape& s = checkpoint.shape;
  Json c;
  c["architectures"] = {flavor == Flavor::kSglang ? "LlamaForCausalLMEagle3" : "Eagle3LlamaForCausalLM"};
  c.update(llama_config(checkpoint, facts, dtype));
  c["draft_vocab_size"] = s.draft_vocab_size;
  c["target_hidden_size"] = s.target_hidden_size;
  c["num_aux_hidden_states"] = 3;
  c["norm_before_residual"] = s.norm_before_residual;
  c["norm_before_fc"] = s.norm_before_fc;
  c["fc_norm"] = s.fc_norm;
  c["norm_output"] = s.norm_output;
  Json eagle = {{"use_aux_hidden_state", true}};
  if (!ids.ids.empty()) {
    eagle["eagle_aux_hidden_state_layer_ids"] = ids.ids;
    if (flavor == Flavor::kVllm) c["eagle_aux_hidden_state_layer_ids"] = ids.ids;
  }
  c["eagle_config"] = eagle;
  c["aerie"] = aerie_block(checkpoint, ids);
  return c;
}

Json speculators_config(const Checkpoint& checkpoint, const LayerIds& ids, const Json& facts, std::string_view dtype) {
  const DraftShape& s = checkpoint.shape;
  Json c;
  c["architectures"] = {"Eagle3DraftModel"};
  c["model_type"] = "speculator_model";
  c["speculators_model_type"] = "eagle3";
  c["speculators_version"] = "0.3.0";
  c["transformer_layer_config"] = llama_config(checkpoint, facts, dtype);
  c["draft_vocab_size"] = s.draft_vocab_size;
  c["target_hidden_size"] = s.target_hidden_size;
  c["norm_before_residual"] = s.norm_before_residual;
  c["norm_before_fc"] = s.norm_before_fc;
  c["fc_norm"] = s.fc_norm;
  c["norm_output"] = s.norm_output;
  c["eagle_aux_hidden_state_layer_ids"] = ids.ids;
  c["embed_requires_grad"] = false;
  c["tie_word_embeddings"] = false;
  c["torch_dtype"] = dtype;
  const std::string verifier =
      text_of(facts, "model_path").empty() ? checkpoint.target_name : text_of(facts, "model_path");
  Json architectures = Json::array();
  if (facts.contains("architectures") && facts["architectures"].is_array()) architectures = facts["architectures"];
  c["speculators_config"] = {
      {"algorithm", "eagle3"},
      {"default_proposal_method", "greedy"},
      {"proposal_methods", Json::array({{{"proposal_type", "greedy"},
                                         {"speculative_tokens", std::max(1, std::min(checkpoint.ttt_steps, 5))},
                                         {"verifier_accept_k", 1},
                                         {"accept_tolerance", 0.0}}})},
      {"verifier", {{"name_or_path", verifier}, {"architectures", architectures}}},
  };
  c["aerie"] = aerie_block(checkpoint, ids);
  return c;
}

DType dtype_of(WeightType type) {
  return type == WeightType::kF32 ? DType::kF32 : type == WeightType::kF16 ? DType::kF16 : DType::kBF16;
}

Result<Tensor> stored(const Tensor& tensor, WeightType type, std::string name) {
  if (tensor.dtype == DType::kI64) return Tensor{std::move(name), tensor.dtype, tensor.shape, tensor.bytes};
  TRY(const std::vector<float> values, to_floats(tensor.view()));
  TRY(auto bytes, layout::encode(values, type, tensor.shape.back(), tensor.name));
  return Tensor{std::move(name), dtype_of(type), tensor.shape, std::move(bytes)};
}

Result<Tensor> reachable_mask(const Checkpoint& checkpoint) {
  TRY(const std::vector<int64_t> offsets, to_int64(checkpoint.find("d2t")->view()));
  std::vector<std::byte> mask(static_cast<size_t>(checkpoint.shape.vocab_size), std::byte{0});
  for (size_t i = 0; i < offsets.size(); ++i) mask[i + static_cast<size_t>(offsets[i])] = std::byte{1};
  return Tensor{"t2d", DType::kBool, {checkpoint.shape.vocab_size}, std::move(mask)};
}

Result<std::vector<Tensor>> stored_tensors(const Checkpoint& checkpoint, Flavor flavor, WeightType type,
                                           std::span<const float> embeddings) {
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : checkpoint.tensors) {
    TRY(Tensor t, stored(tensor, type, layout::hf_name(tensor.name, flavor)));
    tensors.push_back(std::move(t));
  }
  if (flavor != Flavor::kVllm) {  // vLLM derives it and has no place for it
    TRY(Tensor mask, reachable_mask(checkpoint));
    tensors.push_back(std::move(mask));
  }
  if (embeddings.empty()) return tensors;
  const Shape table{checkpoint.shape.vocab_size, checkpoint.shape.target_hidden_size};
  TRY(const int64_t count, count_of(table));
  if (static_cast<int64_t>(embeddings.size()) != count) {
    return invalid(
        fmt::format("the embedding table has {} numbers and must be {}", embeddings.size(), shape_text(table)));
  }
  TRY(auto bytes, layout::encode(embeddings, type, table.back(), "embed_tokens.weight"));
  tensors.push_back(Tensor{"embed_tokens.weight", dtype_of(type), table, std::move(bytes)});
  return tensors;
}

}  // namespace

Result<ExportReport> export_hf(FileSystem& fs, const Checkpoint& checkpoint, Flavor flavor, const std::string& folder,
                               const ExportOptions& options, std::span<const float> embeddings) {
  if (options.type == WeightType::kQ8)
    return invalid("Q8_0 is a GGUF type; a Hugging Face folder takes BF16, F16 or F32");
  if (flavor == Flavor::kSpeculators && embeddings.empty()) {
    return invalid("the speculators flavor carries the target's embedding table, which was not given");
  }
  CHECKED(layout::check_whole(checkpoint, "export to " + folder));
  CHECKED(refuse_what_engine_cannot(checkpoint, flavor));
  TRY(const Json facts, parsed_facts(options.facts_json));
  TRY(const LayerIds ids, layer_ids(checkpoint, flavor, text_of(facts, "architecture")));

  const std::string_view dtype = options.type == WeightType::kF32   ? "float32"
                                 : options.type == WeightType::kF16 ? "float16"
                                                                    : "bfloat16";
  const Json config = flavor == Flavor::kSpeculators ? speculators_config(checkpoint, ids, facts, dtype)
                                                     : native_config(checkpoint, flavor, ids, facts, dtype);
  TRY(const std::vector<Tensor> tensors, stored_tensors(checkpoint, flavor, options.type, embeddings));
  TRY(layout::NewFolder fresh, layout::NewFolder::begin(fs, folder, options.overwrite));
  std::vector<TensorView> views;
  ExportReport report{folder, {}, 0, ids.ids, ids.note};
  for (const Tensor& tensor : tensors) {
    views.push_back(tensor.view());
    report.names.push_back(tensor.name);
    report.size_bytes += tensor.bytes.size();
  }
  // "format": "pt" is what Transformers-style loaders look for.
  CHECKED(write_safetensors(fs, fresh.file("model.safetensors"), views,
                            {{"format", "pt"}, {"aerie.target_fingerprint", checkpoint.target_fingerprint}}));
  CHECKED(write_file_atomically(fs, fresh.file("config.json"),
                                config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  TRY(const std::string moved, fresh.commit());
  if (!moved.empty()) report.note += (report.note.empty() ? "" : "; ") + moved;
  return report;
}

}  // namespace aerie
