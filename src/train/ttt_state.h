// What is behind TttModel: weights and their gradients in one block each, and the buffers of one batch.
//
// Split over ttt_model.cpp (making, weights in and out), ttt_forward.cpp, ttt_loss.cpp, ttt_backward.cpp (one job
// each). One thread at a time. Private to train.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/dense.h"
#include "train/floats.h"
#include "train/ttt.h"
#include "train/ttt_plan.h"

namespace aerie {

// Places of the draft's tensors inside a block of all of them; used for weights and for gradients alike.
// q, k and v stand one below the other, and so do gate and up: each group is one matrix.
struct DraftTensors {
  float *fc = nullptr, *qkv = nullptr, *o = nullptr, *gate_up = nullptr, *down = nullptr, *lm_head = nullptr;
  float *input_layernorm = nullptr, *hidden_norm = nullptr, *post_norm = nullptr, *norm = nullptr;
  float *input_norm = nullptr, *fc_norm = nullptr;  // null when the shape has none; fc_norm is [3, Ht]
};

struct DraftTensorPlace {
  std::string name;
  Shape shape;
  int64_t offset = 0, count = 0;
};

// Buffers of one TTT step, all [rows, ...].
struct StepBuffers {
  Floats state;  // [H] what the step starts from; unused at step 0 when `fused` itself is it, and when it is an output
  Floats hidden_inverse, post_inverse, norm_inverse;  // [1] inverse rms of the three norms
  Floats qkv, d_qkv;                                  // [heads + 2 kv heads][size]; only q is used at step 0
  Floats out, lse;                                    // [heads * size], [heads]
  Floats residual;                                    // [H] after attention
  Floats gate_up;                                     // [2 I]
  Floats raw, normed;                                 // [H] the step's output, before and after the final norm
  Floats d_head;                                      // [H] gradient of what the lm_head reads
};

struct Workspace {
  Floats aux, aux_normed, aux_inverse;           // [keys, 3 Ht]
  Floats fused, key_hidden, key_inverse;         // [keys, H]
  Floats kv0, d_kv0;                             // [keys, 2 kv heads * size]
  Floats embedded, token_hidden, token_inverse;  // [tokens, H]
  Floats token_qkv, d_token_qkv;                 // [tokens, heads + 2 kv heads][size]
  Floats cosines, sines;
  int64_t table_positions = 0;
  Floats prefix_out, prefix_lse;
  Floats hidden, act, d_act, d_out, d_residual, d_state, d_raw, d_hidden, d_key_hidden, d_fused, d_aux;
  std::vector<StepBuffers> steps;
  Floats teacher_hidden, teacher_inverse, teacher, negative_entropy, head_rows, d_head_rows, logits, cross_entropy;
};

struct TttModel::State {
  DraftShape shape;
  TttOptions options;
  std::shared_ptr<const StoredHead> head;
  std::vector<int32_t> target_of;  // [Vd] target id of each draft id
  std::vector<uint8_t> drafted;    // [V]
  std::vector<DraftTensorPlace> places;
  int64_t count = 0, matrix_count = 0;  // floats in the block; matrices stand first, norms behind
  Floats weights_block, gradients_block, mean_block, square_block;
  DraftTensors weights, gradients;
  std::vector<float> feature_scale;  // [3 Ht] 1 / rms of what fc reads, per column; empty = all 1
  Floats teacher_head;               // [Vd, H] rows of the target's lm_head
  Workspace work;

  int64_t query_width() const { return int64_t{shape.head_count} * shape.head_size; }
  int64_t kv_width() const { return int64_t{shape.kv_head_count} * shape.head_size; }
  int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  dense::HeadShape heads() const;
  const float* embedding_table() const { return (head->embeddings.empty() ? head->lm_head : head->embeddings).data(); }
  // Where step k's state is: fused rows, a gathered copy, or the output of the step before.
  const float* state_of(const Plan& plan, int k) const;
  const float* head_input(int k) const;

  Result<TttOutputs> run(std::span<const TttSequence> batch, const TttWants& wants);
  std::vector<int32_t> teacher_argmax(std::span<const float> last) const;
  void forward(std::span<const TttSequence> batch, const Plan& plan);
  Status loss(std::span<const TttSequence> batch, const Plan& plan, const TttWants& wants, TttOutputs& outputs);
  void backward(const Plan& plan);

 private:
  void forward_features(std::span<const TttSequence> batch, const Plan& plan);
  void forward_tokens(const Plan& plan);
  void forward_qkv(const Plan& plan, int k);
  void forward_attention(const Plan& plan, int k);
  void forward_step(const Plan& plan, int k);
  void backward_output(const Plan& plan, int k);
  void backward_mlp(const Plan& plan, int k);
  void backward_attention(const Plan& plan, int k);
  void backward_qkv(const Plan& plan, int k);
  void backward_features(const Plan& plan);
  void backward_tokens(const Plan& plan);
  void teacher_rows(std::span<const TttSequence> batch, std::span<const PlanTeacher> teachers);
};

}  // namespace aerie
