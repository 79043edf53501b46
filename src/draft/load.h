// Loads a draft from any file that holds one, into the one form that Aerie uses: a Checkpoint.
//
// Read are: Aerie's own draft.safetensors; Hugging Face folders as SpecForge, SGLang, vLLM, ModelOpt and speculators
// write them (midlayer.* or layers.0.*, with or without a leading "model."); GGUF of architecture eagle3. Nothing is
// guessed: an unknown tensor, a missing one, a wrong shape, a value that is not finite, a draft vocabulary without d2t
// is kCorrupt or kInvalid with the name. Plain functions; one thread a call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "train/draft_shape.h"

namespace aerie {

struct LoadedDraft {
  Checkpoint checkpoint;  // boundaries empty when the file leaves them to the engine and the layer count is unknown
  std::vector<float> embeddings;  // [V, Ht] when the file brings its own; else empty
  std::string format;             // "aerie", "hf", "speculators", "gguf"
  std::string weight_type;        // of the matrices: "BF16", "F32", ...
};

// `target_layer_count` (0 = unknown) completes files that name no layers: the engines then take {2, n/2, n-3}.
Result<LoadedDraft> load_draft(FileSystem& fs, const std::string& path, int target_layer_count = 0);

// A draft is bound to one target. kInvalid names both sides; a draft without a fingerprint (made by another tool)
// passes only when `allow_unbound`.
Status check_target(const Checkpoint& draft, std::string_view draft_path, std::string_view target_fingerprint,
                    std::string_view target_name, bool allow_unbound = false);

}  // namespace aerie
