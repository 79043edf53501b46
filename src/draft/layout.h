// Where each tensor of a draft lies in the files of the engines: one table, used by writers and readers.
//
// Inner header of the room. Plain functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "draft/export.h"
#include "tensor/gguf.h"
#include "train/draft_shape.h"

namespace aerie::layout {

// A checkpoint's tensor name as a Hugging Face folder of this flavor names it.
std::string hf_name(std::string_view checkpoint_name, Flavor flavor);
// Back: accepts midlayer.* and layers.0.*, with or without "model.". Names that are not a draft's come back unchanged.
std::string from_hf_name(std::string_view name);

// A checkpoint's tensor name in GGUF; empty when GGUF has no place for it (fc_norm).
std::string gguf_name(std::string_view checkpoint_name);

// True for q_proj and k_proj, whose rows GGUF orders for interleaved RoPE.
bool rows_are_permuted(std::string_view checkpoint_name);
// True for one-dimensional norms, which GGUF keeps in F32.
bool is_norm(const Shape& shape);

// Floats as bytes of a type; kQ8 needs rows that are multiples of 32.
Result<std::vector<std::byte>> encode(std::span<const float> values, WeightType type, int64_t columns,
                                      std::string_view name);
// A GGUF tensor of F32, F16, BF16 or Q8_0 as floats.
Result<std::vector<float>> decode_gguf(const GgufTensor& tensor);
// ggml's number of a weight type.
uint32_t ggml_number(WeightType type);
// "F16" and so on; "type 12" for those that Aerie does not read.
std::string ggml_text(uint32_t type);

// kInvalid unless every weight is there with its shape and finite, boundaries are three, ascending and inside the
// target, and d2t gives different ids of the vocabulary. `where` stands in front of the sentence.
Status check_whole(const Checkpoint& checkpoint, std::string_view where);

// Sizes of a checkpoint in words, for error sentences: "target 'x' (30 layers, width 576, 49152 tokens)".
std::string target_text(const Checkpoint& checkpoint);

}  // namespace aerie::layout
