// Writes a trained draft the way the engines read it, and proves afterwards that what lies on disk is the draft that
// was trained: Hugging Face folders for SGLang, vLLM and speculators, and GGUF for llama.cpp (docs/export.md).
//
// Everything is written beside the final name and renamed, so that a crash leaves the old thing or the new one. A name
// that is taken is kExists unless `overwrite`. A draft that an engine cannot compute (flags it does not know,
// boundaries it cannot capture) is kInvalid with the flag and the engine in the sentence: nothing is left out silently.
// Every file carries `aerie` data: fingerprint and name of the target, boundaries in all numberings, version.
// Plain functions; one thread a call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "train/draft_shape.h"

namespace aerie {

enum class Flavor {
  kSglang,       // SpecForge's names (midlayer.*), LlamaForCausalLMEagle3
  kVllm,         // layers.0.*, Eagle3LlamaForCausalLM
  kSpeculators,  // layers.0.*, embeddings included, self-describing config for `vllm serve <folder>`
};
std::string_view name_of(Flavor flavor);  // "sglang", "vllm", "speculators"
Result<Flavor> flavor_named(std::string_view name);

// How the matrices are stored; norms stay F32 in GGUF and follow the matrices elsewhere.
enum class WeightType { kF32, kF16, kBF16, kQ8 };  // kQ8 = Q8_0, GGUF only
std::string_view name_of(WeightType type);         // "F32", "F16", "BF16", "Q8_0"
Result<WeightType> weight_type_named(std::string_view name);

struct ExportOptions {
  bool overwrite = false;
  WeightType type = WeightType::kBF16;
  // The target's facts as they stand in the store's header (StoreHeader::facts_json): architecture, bos_id, eos_id,
  // model_path are used where they are; empty is allowed. What the draft computes comes from the checkpoint alone.
  std::string facts_json = {};
};

struct ExportReport {
  std::string path;                // folder or file
  std::vector<std::string> names;  // tensors written
  uint64_t size_bytes = 0;
  std::vector<int> layer_ids;  // as written for the engine; empty when left out on purpose
  std::string note;            // what a person should know, or empty
};

// `embeddings` [V, Ht] of the target: needed by kSpeculators, written by the others only when given.
Result<ExportReport> export_hf(FileSystem& fs, const Checkpoint& checkpoint, Flavor flavor, const std::string& folder,
                               const ExportOptions& options, std::span<const float> embeddings = {});

// The tokenizer is copied from the target's file, against which the checkpoint is checked (layers, width, vocabulary).
// Without embeddings, llama.cpp shares the target's table.
Result<ExportReport> export_gguf(FileSystem& fs, const Checkpoint& checkpoint, const std::string& target_gguf,
                                 const std::string& path, const ExportOptions& options,
                                 std::span<const float> embeddings = {});

// What check_export() compares on: a stretch of one stored sample.
struct ExportSample {
  std::vector<int32_t> ids;       // [T]
  std::vector<float> aux;         // [T, 3 * Ht]
  std::vector<float> embeddings;  // [V, Ht] of the target
  int ttt_steps = 3;
};

struct ExportCheck {
  size_t tensors = 0;
  double worst_weight = 0;  // largest |exported - trained| over a tensor's largest |trained|
  double worst_logit = 0;   // largest |exported - trained| over the largest |trained| logit
  double tolerance = 0;     // for worst_logit, by the stored type
  int64_t logits_compared = 0;
  double argmax_agreement = 1;  // share of (slot, step) with the same best draft token
};

// Reloads an export strictly (names, shapes, dtypes, finite values, d2t) as a checkpoint again, undoes the row order of
// GGUF, and compares weights with the trained ones and logits with the trainer's own forward pass on the sample: the
// exported side is computed by the independent decoder of sequential.h. kCorrupt names what differs and by how much.
Result<ExportCheck> check_export(const Checkpoint& trained, const std::string& path, const ExportSample& sample);

// Layer ids in the numberings of the engines, from boundaries. SGLang counts layer outputs (boundary - 1), except for
// target architectures whose SGLang code takes boundaries as they are (gpt-oss, and DeepSeek's family unless the first
// is 1).
std::vector<int> output_layer_ids(const std::vector<int>& boundaries);
// {2, n/2, n-3}
bool boundaries_are_default(const std::vector<int>& boundaries, int layer_count);

// Rows of a q or k matrix from half-split RoPE (Hugging Face) to interleaved pairs (GGUF), and back; for each head of
// `head_size` rows: row 2i+j takes row j*head_size/2 + i.
std::vector<float> to_interleaved_rows(std::span<const float> matrix, int64_t columns, int head_size);
std::vector<float> to_half_split_rows(std::span<const float> matrix, int64_t columns, int head_size);

}  // namespace aerie
