// Layer numberings of other tools, converted at the edges (read in their sources, mid-2026). Inside Aerie only boundaries
// exist: boundary b is the residual stream entering layer b. Pure functions.
#pragma once

namespace aerie {

// vLLM, speculators, EAGLE and llama.cpp (`target_layers`) write boundaries as they are.
constexpr int vllm_id_of_boundary(int boundary) { return boundary; }
constexpr int boundary_of_vllm_id(int id) { return id; }

// SpecForge, SGLang (explicit ids of most models), ModelOpt and TorchSpec name the layer whose OUTPUT it is.
constexpr int output_id_of_boundary(int boundary) { return boundary - 1; }
constexpr int boundary_of_output_id(int id) { return id + 1; }

// Hugging Face: hidden_states[b] is boundary b, except the last entry, which went through the final norm: boundary n is
// not to be had there (-1).
constexpr int hugging_face_index_of_boundary(int boundary, int layer_count) { return boundary < layer_count ? boundary : -1; }

}  // namespace aerie
