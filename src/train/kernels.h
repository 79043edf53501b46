// The arithmetic of a draft that is not a matrix product: norms, SwiGLU, RoPE, merging attention by log-sum-exp, the
// loss on logits, AdamW. Plain loops over rows, vectorised for the machine at hand, spread over OpenMP's threads
// (LibTorch's own).
//
// Row-major floats; all sums that cross rows are made over fixed blocks, so results do not depend on the thread count.
// Nothing here fails. Private to train.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "train/dense.h"

namespace aerie::kernels {

// Calls work(begin, end) for pieces of [0, count), each at least `grain` long, on several threads.
void parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work);

// y = x / rms(x) * weight, rms over the row's columns; inverse_rms[row] is kept for the backward pass.
void rms_norm(dense::Matrix y, dense::ConstMatrix x, const float* weight, double epsilon, float* inverse_rms);
// The same from the kept inverse_rms.
void rms_norm_again(dense::Matrix y, dense::ConstMatrix x, const float* weight, const float* inverse_rms);
// d_x (+)= ; d_weight += . d_x may be null data when only d_weight is wanted.
void rms_norm_backward(dense::Matrix d_x, dense::Into into, dense::ConstMatrix d_y, dense::ConstMatrix x,
                       const float* weight, const float* inverse_rms, float* d_weight);

// gate_up rows hold I gates and I ups; act = silu(gate) * up.
void swiglu(float* act, const float* gate_up, int64_t rows, int64_t inner);
// Writes act again, and replaces gate_up by its gradient.
void swiglu_backward(float* act, float* gate_up, const float* d_act, int64_t rows, int64_t inner);

// Cosines and sines of positions [0, positions): [positions, size / 2] each.
void rope_table(float* cosines, float* sines, int64_t positions, int size, double theta);
// Rotates `heads` heads of each row (halves form pairs) by position[row] + shift; backward rotates the other way.
void rope(float* x, int64_t rows, int64_t stride, int heads, int size, const int32_t* position, int shift,
          const float* cosines, const float* sines, bool backward);

// One step-k attention of rows: a causal block, for rows with a prefix a second block, and k own-slot keys.
struct MergeArgs {
  dense::HeadShape shape;
  int64_t rows = 0;
  const float* query = nullptr;  // [rows], stride query_stride
  int64_t query_stride = 0;
  std::span<const float* const> keys;  // of steps 1..k: row r at keys[i] + r * kv_stride; size 0 at step 0
  std::span<const float* const> values;
  int64_t kv_stride = 0;
};
// out/lse hold the first block's result and become the merged ones; prefix_* may be null.
void merge_attention(const MergeArgs& args, const float* prefix_out, const float* prefix_lse, float* out, float* lse);
// Shares of the own-slot keys: adds to d_query and to d_keys[i], d_values[i].
void merge_attention_backward(const MergeArgs& args, const float* d_out, const float* out, const float* lse,
                              float* d_query, int64_t d_query_stride, std::span<float* const> d_keys,
                              std::span<float* const> d_values, int64_t d_kv_stride);

// z becomes softmax(z); negative_entropy[row] = sum p log p.
void softmax_rows(float* z, int64_t rows, int64_t columns, float* negative_entropy);

struct LossArgs {
  int64_t rows = 0, columns = 0;
  const float* teacher = nullptr;        // softmaxed rows
  const int32_t* teacher_row = nullptr;  // [rows] which of them
  const float* coefficient = nullptr;    // [rows] of the gradient
  bool gradient = false;                 // z becomes (softmax(z) - teacher) * coefficient
};
// cross_entropy[row] = -sum p log softmax(z); best[row] = argmax of z (lowest index of equals).
void loss_rows(const LossArgs& args, float* z, float* cross_entropy, int32_t* best);

void add(float* into, const float* x, int64_t count);
int64_t argmax(const float* x, int64_t count);
double sum_of_squares(const float* x, int64_t count);

struct AdamArgs {
  double lr, beta1, beta2, epsilon, weight_decay, gradient_scale, correction1, correction2;
};
void adamw(const AdamArgs& args, float* weight, const float* gradient, float* mean, float* square, int64_t count);
// The same for a matrix whose column c moves step_scale[c] times as far.
void adamw_columns(const AdamArgs& args, dense::Matrix weight, const float* gradient, float* mean, float* square,
                   const float* step_scale);
// Column c of a matrix times scale[c].
void scale_columns(dense::Matrix x, const float* scale);

}  // namespace aerie::kernels
