#include <cstring>

#include "train/kernels.h"
#include "train/ttt_state.h"

namespace aerie {

using dense::ConstMatrix;
using dense::Into;
using dense::Matrix;

// Steps in reverse: the gradient of a step's keys and values is whole only when all later steps have used them.
void TttModel::State::backward(const Plan& plan) {
  const int64_t h = shape.hidden_size, n = plan.rows, d = qkv_width();
  for (StepBuffers& step : work.steps) step.d_qkv.zeroed(n * d);
  work.d_kv0.zeroed(plan.key_rows * 2 * kv_width());
  work.d_token_qkv.zeroed(plan.token_rows * d);
  work.d_state.zeroed(n * h);
  for (int k = options.steps - 1; k >= 0; --k) {
    backward_output(plan, k);
    backward_mlp(plan, k);
    backward_attention(plan, k);
    backward_qkv(plan, k);
  }
  backward_features(plan);
  backward_tokens(plan);
}

// d_raw: what reaches the step's output, from its logits and from the next step.
void TttModel::State::backward_output(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t h = shape.hidden_size, n = plan.rows, all = n * h;
  const Matrix d_raw{work.d_raw.size(all), n, h, h};
  const ConstMatrix raw{step.raw.data(), n, h, h};
  float* d_head = step.d_head.data();
  float* d_next = work.d_state.data();
  // Each of the two readers reads either the raw or the normed output.
  if (shape.normed_logits && shape.norm_output) kernels::add(d_head, d_next, all);
  const float* through_norm = shape.normed_logits ? d_head : d_next;
  const float* direct = shape.normed_logits ? d_next : d_head;
  const bool has_direct = !(shape.normed_logits && shape.norm_output);
  if (has_direct) std::memcpy(d_raw.data, direct, static_cast<size_t>(all) * sizeof(float));
  if (!shape.normed_logits && !shape.norm_output) {
    kernels::add(d_raw.data, d_next, all);
    return;
  }
  kernels::rms_norm_backward(d_raw, has_direct ? Into::kAdd : Into::kReplace, {through_norm, n, h, h}, raw,
                             weights.norm, step.norm_inverse.data(), gradients.norm);
}

// d_raw becomes the gradient of the residual stream after attention.
void TttModel::State::backward_mlp(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t h = shape.hidden_size, n = plan.rows, inner = shape.intermediate_size;
  const Matrix d_raw{work.d_raw.data(), n, h, h};
  const Matrix d_act{work.d_act.size(n * inner), n, inner, inner};
  const Matrix act{work.act.size(n * inner), n, inner, inner};
  dense::multiply_nn(d_act, d_raw, {weights.down, h, inner, inner}, Into::kReplace);
  kernels::swiglu_backward(act.data, step.gate_up.data(), d_act.data, n, inner);
  dense::multiply_tn({gradients.down, h, inner, inner}, d_raw, act, Into::kAdd);

  const Matrix hidden{work.hidden.size(n * h), n, h, h};
  const ConstMatrix residual{step.residual.data(), n, h, h}, d_gate_up{step.gate_up.data(), n, 2 * inner, 2 * inner};
  kernels::rms_norm_again(hidden, residual, weights.post_norm, step.post_inverse.data());
  dense::multiply_tn({gradients.gate_up, 2 * inner, h, h}, d_gate_up, hidden, Into::kAdd);
  const Matrix d_hidden{work.d_hidden.size(n * h), n, h, h};
  dense::multiply_nn(d_hidden, d_gate_up, {weights.gate_up, 2 * inner, h, h}, Into::kReplace);
  kernels::rms_norm_backward(d_raw, Into::kAdd, d_hidden, residual, weights.post_norm, step.post_inverse.data(),
                             gradients.post_norm);
}

void TttModel::State::backward_attention(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t h = shape.hidden_size, n = plan.rows, d = qkv_width(), qw = query_width(), kvw = kv_width();
  const ConstMatrix d_residual{work.d_raw.data(), n, h, h};
  const Matrix d_out{work.d_out.size(n * qw), n, qw, qw};
  dense::multiply_nn(d_out, d_residual, {weights.o, h, qw, qw}, Into::kReplace);
  dense::multiply_tn({gradients.o, h, qw, qw}, d_residual, {step.out.data(), n, qw, qw}, Into::kAdd);
  for (const PlanSpan& span : plan.spans) {
    const ConstMatrix q{step.qkv.data() + span.row * d, span.count, qw, d};
    const Matrix d_q{step.d_qkv.data() + span.row * d, span.count, qw, d};
    const float* key = work.kv0.data() + span.key_row * 2 * kvw;
    float* d_key = work.d_kv0.data() + span.key_row * 2 * kvw;
    const int64_t own = span.slot * 2 * kvw;
    const float* grad = d_out.data + span.row * qw;
    const float* out = step.out.data() + span.row * qw;
    const float* lse = step.lse.data() + span.row * shape.head_count;
    const auto block = [&](bool causal, int64_t offset, int64_t rows) {
      dense::attention_backward(heads(), causal, q, {key + offset, rows, kvw, 2 * kvw},
                                {key + offset + kvw, rows, kvw, 2 * kvw}, grad, out, lse, d_q,
                                {d_key + offset, rows, kvw, 2 * kvw}, {d_key + offset + kvw, rows, kvw, 2 * kvw});
    };
    block(true, own, span.count);
    if (span.slot > 0) block(false, 0, span.slot);
    if (k == 0) continue;
    std::vector<const float*> keys, values;
    std::vector<float*> d_keys, d_values;
    for (int i = 1; i <= k; ++i) {
      StepBuffers& other = work.steps[static_cast<size_t>(i)];
      keys.push_back(other.qkv.data() + span.row * d + qw);
      values.push_back(keys.back() + kvw);
      d_keys.push_back(other.d_qkv.data() + span.row * d + qw);
      d_values.push_back(d_keys.back() + kvw);
    }
    kernels::merge_attention_backward({heads(), span.count, q.data, d, keys, values, d}, grad, out, lse, d_q.data, d,
                                      d_keys, d_values, d);
  }
}

// Through q (k, v) and hidden_norm back to the step's state: d_state for the step before, d_fused after step 0.
void TttModel::State::backward_qkv(const Plan& plan, int k) {
  StepBuffers& step = work.steps[static_cast<size_t>(k)];
  const int64_t h = shape.hidden_size, n = plan.rows, d = qkv_width();
  const int64_t used = k == 0 ? query_width() : d;
  kernels::rope(step.d_qkv.data(), n, d, k == 0 ? shape.head_count : shape.head_count + shape.kv_head_count,
                shape.head_size, plan.position.data(), k, work.cosines.data(), work.sines.data(), true);
  for (const PlanSpan& span : plan.spans) {
    for (int64_t r = 0; r < span.count; ++r) {
      float* into = work.d_token_qkv.data() + (span.token_row + r + k) * d;
      const float* from = step.d_qkv.data() + (span.row + r) * d;
      for (int64_t i = 0; i < used; ++i) into[i] += from[i];
    }
  }
  const ConstMatrix d_qkv{step.d_qkv.data(), n, used, d}, state{state_of(plan, k), n, h, h};
  const Matrix hidden{work.hidden.size(n * h), n, h, h};
  kernels::rms_norm_again(hidden, state, weights.hidden_norm, step.hidden_inverse.data());
  dense::multiply_tn({gradients.qkv + h, used, h, 2 * h}, d_qkv, hidden, Into::kAdd);
  const Matrix d_hidden{work.d_hidden.size(n * h), n, h, h};
  dense::multiply_nn(d_hidden, d_qkv, {weights.qkv + h, used, h, 2 * h}, Into::kReplace);
  if (shape.norm_before_residual) kernels::add(d_hidden.data, work.d_raw.data(), n * h);
  if (k == 0) return;
  const Matrix d_state{work.d_state.size(n * h), n, h, h};
  if (!shape.norm_before_residual)
    std::memcpy(d_state.data, work.d_raw.data(), static_cast<size_t>(n * h) * sizeof(float));
  kernels::rms_norm_backward(d_state, shape.norm_before_residual ? Into::kReplace : Into::kAdd, d_hidden, state,
                             weights.hidden_norm, step.hidden_inverse.data(), gradients.hidden_norm);
}

// After step 0: d_hidden and d_raw belong to the active rows, d_kv0 to all keys.
void TttModel::State::backward_features(const Plan& plan) {
  const int64_t h = shape.hidden_size, ht = shape.target_hidden_size, n = plan.key_rows;
  const int64_t qw = query_width(), kv = 2 * kv_width(), d = qkv_width();
  float* d_kv0 = work.d_kv0.data();
  kernels::rope(d_kv0, n, kv, shape.kv_head_count, shape.head_size, plan.key_position.data(), 0, work.cosines.data(),
                work.sines.data(), true);
  for (const PlanSequence& s : plan.sequences) {
    for (int64_t j = 0; j < s.keys; ++j) {
      float* into = work.d_token_qkv.data() + (s.token_row + j) * d + qw;
      const float* from = d_kv0 + (s.key_row + j) * kv;
      for (int64_t i = 0; i < kv; ++i) into[i] += from[i];
    }
  }
  const ConstMatrix d_keys{d_kv0, n, kv, kv};
  const int64_t kv_rows = qw * 2 * h + h;
  dense::multiply_tn({gradients.qkv + kv_rows, kv, h, 2 * h}, d_keys, {work.key_hidden.data(), n, h, h}, Into::kAdd);
  const Matrix d_hidden{work.d_key_hidden.size(n * h), n, h, h};
  dense::multiply_nn(d_hidden, d_keys, {weights.qkv + kv_rows, kv, h, 2 * h}, Into::kReplace);
  const Matrix d_fused{work.d_fused.zeroed(n * h), n, h, h};
  for (int64_t r = 0; r < plan.rows; ++r) {
    const int64_t key = int64_t{plan.key_of_row[static_cast<size_t>(r)]} * h;
    for (int64_t i = 0; i < h; ++i) d_hidden.data[key + i] += work.d_hidden.data()[r * h + i];
    if (shape.norm_before_residual) continue;
    std::memcpy(d_fused.data + key, work.d_raw.data() + r * h, static_cast<size_t>(h) * sizeof(float));
  }
  kernels::rms_norm_backward(d_fused, Into::kAdd, d_hidden, {work.fused.data(), n, h, h}, weights.hidden_norm,
                             work.key_inverse.data(), gradients.hidden_norm);

  const bool normed = shape.norm_before_fc || shape.fc_norm;
  const float* features = normed ? work.aux_normed.data() : work.aux.data();
  dense::multiply_tn({gradients.fc, h, 3 * ht, 3 * ht}, d_fused, {features, n, 3 * ht, 3 * ht}, Into::kAdd);
  if (!normed) return;
  const Matrix d_aux{work.d_aux.size(n * 3 * ht), n, 3 * ht, 3 * ht};
  dense::multiply_nn(d_aux, d_fused, {weights.fc, h, 3 * ht, 3 * ht}, Into::kReplace);
  if (shape.norm_before_fc) {
    kernels::rms_norm_backward({}, Into::kReplace, d_aux, {work.aux.data(), n, 3 * ht, 3 * ht}, weights.input_norm,
                               work.aux_inverse.data(), gradients.input_norm);
    return;
  }
  for (int c = 0; c < 3; ++c) {
    kernels::rms_norm_backward({}, Into::kReplace, {d_aux.data + c * ht, n, ht, 3 * ht},
                               {work.aux.data() + c * ht, n, ht, 3 * ht}, weights.fc_norm + c * ht,
                               work.aux_inverse.data() + c * n, gradients.fc_norm + c * ht);
  }
}

// Embeddings are the target's and stay as they are; only the norm over them learns.
void TttModel::State::backward_tokens(const Plan& plan) {
  const int64_t h = shape.hidden_size, n = plan.token_rows, d = qkv_width();
  const ConstMatrix d_qkv{work.d_token_qkv.data(), n, d, d};
  dense::multiply_tn({gradients.qkv, d, h, 2 * h}, d_qkv, {work.token_hidden.data(), n, h, h}, Into::kAdd);
  const Matrix d_hidden{work.d_hidden.size(n * h), n, h, h};
  dense::multiply_nn(d_hidden, d_qkv, {weights.qkv, d, h, 2 * h}, Into::kReplace);
  kernels::rms_norm_backward({}, Into::kReplace, d_hidden, {work.embedded.data(), n, h, h}, weights.input_layernorm,
                             work.token_inverse.data(), gradients.input_layernorm);
}

}  // namespace aerie
