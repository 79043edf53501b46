#include <algorithm>
#include <cstring>

#include "train/kernels.h"
#include "train/ttt_state.h"

namespace aerie {

using dense::ConstMatrix;
using dense::Into;
using dense::Matrix;

const float* TttModel::State::state_of(const Plan& plan, int k) const {
  if (k == 0) return plan.all_rows_are_keys ? work.fused.data() : work.steps[0].state.data();
  const StepBuffers& before = work.steps[static_cast<size_t>(k - 1)];
  return shape.norm_output ? before.normed.data() : before.raw.data();
}

const float* TttModel::State::head_input(int k) const {
  const StepBuffers& step = work.steps[static_cast<size_t>(k)];
  return shape.normed_logits ? step.normed.data() : step.raw.data();
}

void TttModel::State::forward(std::span<const TttSequence> batch, const Plan& plan) {
  if (work.table_positions < plan.positions) {
    const int64_t half = shape.head_size / 2;
    kernels::rope_table(work.cosines.size(plan.positions * half), work.sines.size(plan.positions * half),
                        plan.positions, shape.head_size, shape.rope_theta);
    work.table_positions = plan.positions;
  }
  work.steps.resize(static_cast<size_t>(options.steps));
  forward_tokens(plan);
  forward_features(batch, plan);
  for (int k = 0; k < options.steps; ++k) forward_step(plan, k);
}

// The embedding's half of q, k and v depends on the token alone: once a token, not once a token and step.
void TttModel::State::forward_tokens(const Plan& plan) {
  const int64_t h = shape.hidden_size, n = plan.token_rows, d = qkv_width();
  float* embedded = work.embedded.size(n * h);
  const float* table = embedding_table();
  for (int64_t i = 0; i < n; ++i) {
    const float* row = table + int64_t{plan.tokens[static_cast<size_t>(i)]} * h;
    std::memcpy(embedded + i * h, row, static_cast<size_t>(h) * sizeof(float));
  }
  const Matrix hidden{work.token_hidden.size(n * h), n, h, h};
  kernels::rms_norm(hidden, {embedded, n, h, h}, weights.input_layernorm, shape.rms_norm_eps,
                    work.token_inverse.size(n));
  dense::multiply_nt({work.token_qkv.size(n * d), n, d, d}, hidden, {weights.qkv, d, h, 2 * h}, Into::kReplace);
}

void TttModel::State::forward_features(std::span<const TttSequence> batch, const Plan& plan) {
  const int64_t h = shape.hidden_size, ht = shape.target_hidden_size, n = plan.key_rows;
  const int64_t qw = query_width(), kv = 2 * kv_width(), d = qkv_width();
  float* aux = work.aux.size(n * 3 * ht);
  for (size_t i = 0; i < batch.size(); ++i) {
    const PlanSequence& s = plan.sequences[i];
    if (s.keys > 0) {
      std::memcpy(aux + s.key_row * 3 * ht, batch[i].aux.data(), static_cast<size_t>(s.keys * 3 * ht) * sizeof(float));
    }
  }
  if (shape.norm_before_fc) {
    kernels::rms_norm({work.aux_normed.size(n * 3 * ht), n, 3 * ht, 3 * ht}, {aux, n, 3 * ht, 3 * ht},
                      weights.input_norm, shape.rms_norm_eps, work.aux_inverse.size(n));
  } else if (shape.fc_norm) {
    float* normed = work.aux_normed.size(n * 3 * ht);
    float* inverse = work.aux_inverse.size(3 * n);
    for (int c = 0; c < 3; ++c) {
      kernels::rms_norm({normed + c * ht, n, ht, 3 * ht}, {aux + c * ht, n, ht, 3 * ht}, weights.fc_norm + c * ht,
                        shape.rms_norm_eps, inverse + c * n);
    }
  }
  const float* features = shape.norm_before_fc || shape.fc_norm ? work.aux_normed.data() : aux;
  const Matrix fused{work.fused.size(n * h), n, h, h};
  dense::multiply_nt(fused, {features, n, 3 * ht, 3 * ht}, {weights.fc, h, 3 * ht, 3 * ht}, Into::kReplace);
  const Matrix hidden{work.key_hidden.size(n * h), n, h, h};
  kernels::rms_norm(hidden, fused, weights.hidden_norm, shape.rms_norm_eps, work.key_inverse.size(n));

  float* kv0 = work.kv0.size(n * kv);
  for (const PlanSequence& s : plan.sequences) {
    for (int64_t j = 0; j < s.keys; ++j) {
      std::memcpy(kv0 + (s.key_row + j) * kv, work.token_qkv.data() + (s.token_row + j) * d + qw,
                  static_cast<size_t>(kv) * sizeof(float));
    }
  }
  dense::multiply_nt({kv0, n, kv, kv}, hidden, {weights.qkv + qw * 2 * h + h, kv, h, 2 * h}, Into::kAdd);
  kernels::rope(kv0, n, kv, shape.kv_head_count, shape.head_size, plan.key_position.data(), 0, work.cosines.data(),
                work.sines.data(), false);

  if (plan.all_rows_are_keys) return;
  float* state = work.steps[0].state.size(plan.rows * h);
  for (int64_t r = 0; r < plan.rows; ++r) {
    std::memcpy(state + r * h, fused.data + int64_t{plan.key_of_row[static_cast<size_t>(r)]} * h,
                static_cast<size_t>(h) * sizeof(float));
  }
}

// hidden_norm of the state, and q (with k and v after step 0) of it, rotated.
void TttModel::State::forward_qkv(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t h = shape.hidden_size, n = plan.rows, d = qkv_width();
  const Matrix hidden{work.hidden.size(n * h), n, h, h};
  kernels::rms_norm(hidden, {state_of(plan, k), n, h, h}, weights.hidden_norm, shape.rms_norm_eps,
                    step.hidden_inverse.size(n));
  float* qkv = step.qkv.size(n * d);
  const int64_t used = k == 0 ? query_width() : d;
  for (const PlanSpan& span : plan.spans) {
    for (int64_t r = 0; r < span.count; ++r) {
      std::memcpy(qkv + (span.row + r) * d, work.token_qkv.data() + (span.token_row + r + k) * d,
                  static_cast<size_t>(used) * sizeof(float));
    }
  }
  dense::multiply_nt({qkv, n, used, d}, hidden, {weights.qkv + h, used, h, 2 * h}, Into::kAdd);
  kernels::rope(qkv, n, d, k == 0 ? shape.head_count : shape.head_count + shape.kv_head_count, shape.head_size,
                plan.position.data(), k, work.cosines.data(), work.sines.data(), false);
}

// One softmax over the slots before (a block without a mask), the span itself (a causal block) and the slot's own keys
// of steps 1..k (diagonals), put together by their log-sum-exps: no L x L matrix anywhere.
void TttModel::State::forward_attention(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t d = qkv_width(), qw = query_width(), kvw = kv_width(), heads_n = shape.head_count;
  float* out = step.out.size(plan.rows * qw);
  float* lse = step.lse.size(plan.rows * heads_n);
  for (const PlanSpan& span : plan.spans) {
    const ConstMatrix q{step.qkv.data() + span.row * d, span.count, qw, d};
    const float* key = work.kv0.data() + span.key_row * 2 * kvw;
    const float* own = key + span.slot * 2 * kvw;
    float* span_out = out + span.row * qw;
    float* span_lse = lse + span.row * heads_n;
    dense::attention(heads(), true, q, {own, span.count, kvw, 2 * kvw}, {own + kvw, span.count, kvw, 2 * kvw}, span_out,
                     span_lse);
    float *prefix_out = nullptr, *prefix_lse = nullptr;
    if (span.slot > 0) {
      prefix_out = work.prefix_out.size(span.count * qw);
      prefix_lse = work.prefix_lse.size(span.count * heads_n);
      dense::attention(heads(), false, q, {key, span.slot, kvw, 2 * kvw}, {key + kvw, span.slot, kvw, 2 * kvw},
                       prefix_out, prefix_lse);
    }
    if (k == 0 && prefix_out == nullptr) continue;
    std::vector<const float*> keys, values;
    for (int i = 1; i <= k; ++i) {
      keys.push_back(work.steps[static_cast<size_t>(i)].qkv.data() + span.row * d + qw);
      values.push_back(keys.back() + kvw);
    }
    kernels::merge_attention({heads(), span.count, q.data, d, keys, values, d}, prefix_out, prefix_lse, span_out,
                             span_lse);
  }
}

void TttModel::State::forward_step(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t h = shape.hidden_size, n = plan.rows, qw = query_width(), inner = shape.intermediate_size;
  forward_qkv(plan, k);
  forward_attention(plan, k);

  const Matrix residual{step.residual.size(n * h), n, h, h};
  std::memcpy(residual.data, shape.norm_before_residual ? work.hidden.data() : state_of(plan, k),
              static_cast<size_t>(n * h) * sizeof(float));
  dense::multiply_nt(residual, {step.out.data(), n, qw, qw}, {weights.o, h, qw, qw}, Into::kAdd);

  const Matrix hidden{work.hidden.size(n * h), n, h, h};
  kernels::rms_norm(hidden, residual, weights.post_norm, shape.rms_norm_eps, step.post_inverse.size(n));
  dense::multiply_nt({step.gate_up.size(n * 2 * inner), n, 2 * inner, 2 * inner}, hidden,
                     {weights.gate_up, 2 * inner, h, h}, Into::kReplace);
  kernels::swiglu(work.act.size(n * inner), step.gate_up.data(), n, inner);
  const Matrix raw{step.raw.size(n * h), n, h, h};
  std::memcpy(raw.data, residual.data, static_cast<size_t>(n * h) * sizeof(float));
  dense::multiply_nt(raw, {work.act.data(), n, inner, inner}, {weights.down, h, inner, inner}, Into::kAdd);

  kernels::rms_norm({step.normed.size(n * h), n, h, h}, raw, weights.norm, shape.rms_norm_eps,
                    step.norm_inverse.size(n));
}

}  // namespace aerie
