#include "train/dense.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/mm.h>
#include <c10/core/InferenceMode.h>

#include <thread>

namespace aerie::dense {
namespace {

at::Tensor tensor_of(const float* data, at::IntArrayRef sizes, at::IntArrayRef strides) {
  // from_blob wants a mutable pointer; inputs are only read.
  return at::from_blob(const_cast<float*>(data), sizes, strides, at::TensorOptions().dtype(at::kFloat));
}
at::Tensor tensor_of(ConstMatrix m) { return tensor_of(m.data, {m.rows, m.columns}, {m.stride, 1}); }

void multiply(Matrix c, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (c.rows == 0 || c.columns == 0) return;
  at::Tensor result = tensor_of(c);
  if (into == Into::kAdd) {
    at::addmm_out(result, result, a, b);
  } else {
    at::mm_out(result, a, b);
  }
}

// Rows of heads side by side as [kv_heads, group, rows, size], without copying.
at::Tensor query_heads(HeadShape s, const float* data, int64_t rows, int64_t stride) {
  const int64_t group = s.heads / s.kv_heads;
  return tensor_of(data, {s.kv_heads, group, rows, s.size}, {group * s.size, s.size, stride, 1});
}
at::Tensor key_heads(HeadShape s, ConstMatrix m) {
  const int64_t group = s.heads / s.kv_heads;
  return tensor_of(m.data, {s.kv_heads, group, m.rows, s.size}, {s.size, 0, m.stride, 1});
}

}  // namespace

int set_threads(int threads) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int wanted = threads > 0 ? threads : (cores > 0 ? cores : 1);
  at::set_num_threads(wanted);
  return wanted;
}

void multiply_nt(Matrix c, ConstMatrix a, ConstMatrix b, Into into) {
  const c10::InferenceMode guard;
  multiply(c, tensor_of(a), tensor_of(b).t(), into);
}
void multiply_nn(Matrix c, ConstMatrix a, ConstMatrix b, Into into) {
  const c10::InferenceMode guard;
  multiply(c, tensor_of(a), tensor_of(b), into);
}
void multiply_tn(Matrix c, ConstMatrix a, ConstMatrix b, Into into) {
  const c10::InferenceMode guard;
  multiply(c, tensor_of(a).t(), tensor_of(b), into);
}

void attention(HeadShape s, bool causal, ConstMatrix query, ConstMatrix key, ConstMatrix value, float* out,
               float* lse) {
  const c10::InferenceMode guard;
  const at::Tensor q = query_heads(s, query.data, query.rows, query.stride);
  auto [o, l] = at::_scaled_dot_product_flash_attention_for_cpu(q, key_heads(s, key), key_heads(s, value), 0.0, causal,
                                                                {}, s.scale);
  const int64_t group = s.heads / s.kv_heads;
  query_heads(s, out, query.rows, int64_t{s.heads} * s.size).copy_(o);
  tensor_of(lse, {s.kv_heads, group, query.rows}, {group, 1, s.heads}).copy_(l);
}

void attention_backward(HeadShape s, bool causal, ConstMatrix query, ConstMatrix key, ConstMatrix value,
                        const float* d_out, const float* out, const float* lse, Matrix d_query, Matrix d_key,
                        Matrix d_value) {
  const c10::InferenceMode guard;
  const int64_t group = s.heads / s.kv_heads, width = int64_t{s.heads} * s.size;
  const at::Tensor q = query_heads(s, query.data, query.rows, query.stride);
  const at::Tensor l = tensor_of(lse, {s.kv_heads, group, query.rows}, {group, 1, s.heads});
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      query_heads(s, d_out, query.rows, width), q, key_heads(s, key), key_heads(s, value),
      query_heads(s, out, query.rows, width), l, 0.0, causal, {}, s.scale);
  query_heads(s, d_query.data, d_query.rows, d_query.stride).add_(dq);
  // Every query head of a group gave its own share to the key head.
  tensor_of(d_key.data, {s.kv_heads, d_key.rows, s.size}, {s.size, d_key.stride, 1}).add_(dk.sum(1));
  tensor_of(d_value.data, {s.kv_heads, d_value.rows, s.size}, {s.size, d_value.stride, 1}).add_(dv.sum(1));
}

bool solve_ridge(Matrix x, ConstMatrix gram, double ridge, ConstMatrix rhs) {
  const c10::InferenceMode guard;
  at::Tensor a = tensor_of(gram).to(at::kDouble);
  a.diagonal().add_(ridge);
  const auto [factor, info] = at::linalg_cholesky_ex(a);
  if (info.item<int>() != 0) return false;
  const at::Tensor solved = at::cholesky_solve(tensor_of(rhs).to(at::kDouble), factor);
  tensor_of(x).copy_(solved);
  return solved.isfinite().all().item<bool>();
}

bool top_eigenvectors(Matrix vectors, ConstMatrix symmetric) {
  const c10::InferenceMode guard;
  const at::Tensor a = tensor_of(symmetric).to(at::kDouble);
  if (!a.isfinite().all().item<bool>()) return false;
  const at::Tensor all = std::get<1>(at::linalg_eigh(a));  // ascending
  tensor_of(vectors).copy_(all.slice(1, all.size(1) - vectors.columns).flip({1}));
  return true;
}

}  // namespace aerie::dense
