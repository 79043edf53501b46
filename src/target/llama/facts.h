// Facts and head of a model, read from its GGUF file without loading it. Inner header. Pure functions of the file.
#pragma once

#include "target/target.h"
#include "tensor/gguf.h"

namespace aerie::llama {

// kInvalid for a file that is no causal language model that can be a target (no layers, a draft, no tokenizer).
Result<TargetFacts> read_facts(const GgufFile& gguf, const std::string& path);

// Final norm, lm_head and embeddings as floats, dequantised by ggml.
Result<TargetHead> read_head(const GgufFile& gguf, const TargetFacts& facts);

}  // namespace aerie::llama
