// The shape of an EAGLE-3 draft and the checkpoint that carries one. No torch here: export, bench and app read it too.
//
// Tensor names inside a checkpoint are SpecForge's (reference: sgl-project/SpecForge a6b6b023): fc.weight,
// midlayer.{self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj, input_layernorm, hidden_norm,
// post_attention_layernorm}.weight, norm.weight, lm_head.weight, optional input_norm.weight (norm_before_fc) and
// fc_norm.{0,1,2}.weight; d2t I64 [Vd] offsets. All weights F32. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace aerie {

struct DraftShape {
  int hidden_size = 0;         // H of the draft
  int target_hidden_size = 0;  // Ht; must equal H while the draft shares the target's embeddings
  int intermediate_size = 0;   // I
  int head_count = 0;
  int kv_head_count = 0;
  int head_size = 0;
  int vocab_size = 0;        // V of the target
  int draft_vocab_size = 0;  // Vd
  int context_length = 0;    // serving limit, from the target; not the training length
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000;
  bool norm_before_residual = false;  // residual is hidden_norm(state), not the raw state
  bool norm_before_fc = false;        // one RMSNorm over the concatenated aux states
  bool fc_norm = false;               // one RMSNorm per aux state (EAGLE-3.1)
  bool norm_output = false;           // post-norm state is fed back (EAGLE-3.1)
  bool normed_logits = true;  // false: the lm_head reads the un-normed state (SpecForge 0.2.0 norm_output=False)
  bool operator==(const DraftShape&) const = default;
};

struct Checkpoint {
  DraftShape shape;
  std::vector<int> boundaries;  // of the target, ascending
  int target_layer_count = 0;
  std::string target_fingerprint;
  std::string target_name;
  int ttt_steps = 0;            // trained with
  int64_t step = 0;             // optimizer steps done
  std::vector<Tensor> tensors;  // as above
  const Tensor* find(std::string_view name) const;
};

// kCorrupt when a size that came out of a file is not between 1 and 2^28, or the heads do not fit each other. Every
// reader asks this before it computes with a shape.
Status check_shape(const DraftShape& shape);

// Names and shapes that a checkpoint of this shape must have, no more and no less (d2t included).
std::vector<std::pair<std::string, Shape>> expected_tensors(const DraftShape& shape);

// draft.safetensors: tensors, and everything else in its metadata. Reading checks the set of names, shapes, and finite
// values.
Status write_checkpoint(FileSystem& fs, const std::string& path, const Checkpoint& checkpoint);
Result<Checkpoint> read_checkpoint(const std::string& path);

}  // namespace aerie
