#include "train/kernels.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

// One binary for every x86-64 machine: the loader picks the clone for the CPU. Elsewhere the compiler's target decides.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define AERIE_CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define AERIE_CLONES
#endif
#define AERIE_INLINE inline __attribute__((always_inline))

namespace aerie::kernels {
namespace {

using dense::ConstMatrix;
using dense::Into;
using dense::Matrix;

// Rows are summed in this many fixed blocks wherever a sum crosses rows.
constexpr int64_t kBlocks = 16;

// e^x to about one unit in the last place, in a form that compilers vectorise (Cephes' polynomial). NaN stays NaN.
// (std::bit_cast would be a call that g++ 12 does not vectorise in the clones.)
AERIE_INLINE float fast_exp(float x) {
  const float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = clamped * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, kRound);
  return y * __builtin_bit_cast(float, (exponent + 127u) << 23);
}

AERIE_INLINE float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

AERIE_CLONES void rms_rows(const Matrix& y, const ConstMatrix& x, const float* weight, double epsilon, float* inverse,
                           bool known, int64_t begin, int64_t end) {
  const int64_t n = x.columns;
  for (int64_t r = begin; r < end; ++r) {
    const float* in = x.data + r * x.stride;
    float* out = y.data + r * y.stride;
    if (!known) {
      const float sum = dot(in, in, n);
      // A sum that overflowed must not turn the row into zeros: it becomes NaN, and the loss says so.
      const double mean = static_cast<double>(sum) / static_cast<double>(n);
      inverse[r] = std::isfinite(sum) ? static_cast<float>(1.0 / std::sqrt(mean + epsilon)) : std::nanf("");
    }
    const float scale = inverse[r];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] * scale * weight[i];
  }
}

AERIE_CLONES void rms_backward_rows(const Matrix& d_x, Into into, const ConstMatrix& d_y, const ConstMatrix& x,
                                    const float* weight, const float* inverse, float* d_weight, int64_t begin,
                                    int64_t end) {
  const int64_t n = x.columns;
  for (int64_t r = begin; r < end; ++r) {
    const float* in = x.data + r * x.stride;
    const float* grad = d_y.data + r * d_y.stride;
    const float scale = inverse[r];
    float mean = 0;
#pragma omp simd reduction(+ : mean)
    for (int64_t i = 0; i < n; ++i) {
      const float unit = grad[i] * in[i] * scale;
      d_weight[i] += unit;
      mean += unit * weight[i];
    }
    if (d_x.data == nullptr) continue;
    mean /= static_cast<float>(n);
    float* out = d_x.data + r * d_x.stride;
    if (into == Into::kAdd) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] += (grad[i] * weight[i] - in[i] * scale * mean) * scale;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = (grad[i] * weight[i] - in[i] * scale * mean) * scale;
    }
  }
}

AERIE_CLONES void swiglu_rows(float* act, const float* gate_up, int64_t inner, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* gate = gate_up + r * 2 * inner;
    const float* up = gate + inner;
    float* out = act + r * inner;
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) out[i] = gate[i] / (1.0f + fast_exp(-gate[i])) * up[i];
  }
}

AERIE_CLONES void swiglu_backward_rows(float* act, float* gate_up, const float* d_act, int64_t inner, int64_t begin,
                                       int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    float* gate = gate_up + r * 2 * inner;
    float* up = gate + inner;
    float* out = act + r * inner;
    const float* grad = d_act + r * inner;
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      const float g = gate[i], u = up[i], sigmoid = 1.0f / (1.0f + fast_exp(-g)), silu = g * sigmoid;
      out[i] = silu * u;
      up[i] = grad[i] * silu;
      gate[i] = grad[i] * u * (sigmoid + silu * (1.0f - sigmoid));
    }
  }
}

AERIE_CLONES void softmax_row(float* z, int64_t n, float* negative_entropy) {
  float highest = z[0];
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < n; ++i) highest = z[i] > highest ? z[i] : highest;
  float sum = 0, weighted = 0;
#pragma omp simd reduction(+ : sum, weighted)
  for (int64_t i = 0; i < n; ++i) {
    const float x = z[i] - highest, e = fast_exp(x);
    sum += e;
    weighted += e * x;
    z[i] = e;
  }
  const float scale = 1.0f / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) z[i] *= scale;
  *negative_entropy = weighted * scale - std::log(sum);
}

AERIE_CLONES void loss_row(float* z, const float* p, int64_t n, float coefficient, bool gradient, float* cross_entropy,
                           int32_t* best) {
  float highest = z[0], overlap = 0;
#pragma omp simd reduction(max : highest) reduction(+ : overlap)
  for (int64_t i = 0; i < n; ++i) {
    highest = z[i] > highest ? z[i] : highest;
    overlap += p[i] * z[i];
  }
  if (best != nullptr) {
    int64_t at = 0;
    while (at + 1 < n && z[at] != highest) ++at;  // a NaN row ends at the last index; its loss says so
    *best = static_cast<int32_t>(at);
  }
  float sum = 0;
  if (!gradient) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += fast_exp(z[i] - highest);
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const float e = fast_exp(z[i] - highest);
      sum += e;
      z[i] = e;
    }
    const float scale = coefficient / sum;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) z[i] = z[i] * scale - p[i] * coefficient;
  }
  *cross_entropy = highest + std::log(sum) - overlap;
}

AERIE_CLONES void merge_rows(const MergeArgs& a, const float* prefix_out, const float* prefix_lse, float* out,
                             float* lse, int64_t begin, int64_t end) {
  const int heads = a.shape.heads, size = a.shape.size, group = heads / a.shape.kv_heads;
  const int64_t width = int64_t{heads} * size;
  const size_t own = a.keys.size();
  constexpr size_t kMost = 64;  // checked by TttModel::create
  float score[kMost];
  for (int64_t r = begin; r < end; ++r) {
    for (int h = 0; h < heads; ++h) {
      const float* q = a.query + r * a.query_stride + h * size;
      const int64_t kv = r * a.kv_stride + int64_t{h / group} * size;
      float* o = out + r * width + h * size;
      const float block = lse[r * heads + h];
      float highest = block;
      const float before = prefix_lse != nullptr ? prefix_lse[r * heads + h] : 0;
      if (prefix_lse != nullptr) highest = std::max(highest, before);
      for (size_t i = 0; i < own; ++i) {
        score[i] = dot(q, a.keys[i] + kv, size) * static_cast<float>(a.shape.scale);
        highest = std::max(highest, score[i]);
      }
      float sum = std::exp(block - highest) + (prefix_lse != nullptr ? std::exp(before - highest) : 0.0f);
      for (size_t i = 0; i < own; ++i) sum += std::exp(score[i] - highest);
      const float merged = highest + std::log(sum), share = std::exp(block - merged);
#pragma omp simd
      for (int d = 0; d < size; ++d) o[d] *= share;
      if (prefix_lse != nullptr) {
        const float weight = std::exp(before - merged);
        const float* from = prefix_out + r * width + h * size;
#pragma omp simd
        for (int d = 0; d < size; ++d) o[d] += weight * from[d];
      }
      for (size_t i = 0; i < own; ++i) {
        const float weight = std::exp(score[i] - merged);
        const float* from = a.values[i] + kv;
#pragma omp simd
        for (int d = 0; d < size; ++d) o[d] += weight * from[d];
      }
      lse[r * heads + h] = merged;
    }
  }
}

struct OwnGradients {
  const float* d_out;
  const float* out;
  const float* lse;
  float* d_query;
  int64_t d_query_stride;
  std::span<float* const> d_keys, d_values;
  int64_t d_kv_stride;
};

AERIE_CLONES void merge_backward_rows(const MergeArgs& a, const OwnGradients& g, int64_t begin, int64_t end) {
  const int heads = a.shape.heads, size = a.shape.size, group = heads / a.shape.kv_heads;
  const int64_t width = int64_t{heads} * size;
  const float scale = static_cast<float>(a.shape.scale);
  for (int64_t r = begin; r < end; ++r) {
    for (int h = 0; h < heads; ++h) {
      const float* q = a.query + r * a.query_stride + h * size;
      const float* grad = g.d_out + r * width + h * size;
      const int64_t kv = r * a.kv_stride + int64_t{h / group} * size;
      const int64_t d_kv = r * g.d_kv_stride + int64_t{h / group} * size;
      float* d_q = g.d_query + r * g.d_query_stride + h * size;
      const float delta = dot(grad, g.out + r * width + h * size, size), lse = g.lse[r * heads + h];
      for (size_t i = 0; i < a.keys.size(); ++i) {
        const float* key = a.keys[i] + kv;
        const float p = std::exp(dot(q, key, size) * scale - lse);
        const float ds = p * (dot(grad, a.values[i] + kv, size) - delta) * scale;
        float* d_key = g.d_keys[i] + d_kv;
        float* d_value = g.d_values[i] + d_kv;
#pragma omp simd
        for (int d = 0; d < size; ++d) {
          d_q[d] += ds * key[d];
          d_key[d] += ds * q[d];
          d_value[d] += p * grad[d];
        }
      }
    }
  }
}

// step_scale may be null: then every element moves as far as it should.
AERIE_CLONES void adamw_range(const AdamArgs& a, float* w, const float* g, float* m, float* v, const float* step_scale,
                              int64_t count) {
  const float b1 = static_cast<float>(a.beta1), b2 = static_cast<float>(a.beta2);
  const float scale = static_cast<float>(a.gradient_scale), epsilon = static_cast<float>(a.epsilon);
  const float keep = static_cast<float>(1.0 - a.lr * a.weight_decay), step = static_cast<float>(a.lr / a.correction1);
  const float root = static_cast<float>(1.0 / std::sqrt(a.correction2));
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * scale;
    m[i] = b1 * m[i] + (1.0f - b1) * grad;
    v[i] = b2 * v[i] + (1.0f - b2) * grad * grad;
    const float move = step * m[i] / (__builtin_sqrtf(v[i]) * root + epsilon);
    w[i] = w[i] * keep - (step_scale == nullptr ? move : move * step_scale[i]);
  }
}

}  // namespace

void parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work) {
  if (count <= 0) return;
  const int64_t most = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  if (most == 1) return work(0, count);
#pragma omp parallel
  {
    const int64_t pieces = std::min<int64_t>(omp_get_num_threads(), most), piece = omp_get_thread_num();
    if (piece < pieces) work(count * piece / pieces, count * (piece + 1) / pieces);
  }
}

void rms_norm(Matrix y, ConstMatrix x, const float* weight, double epsilon, float* inverse_rms) {
  parallel(x.rows, 16, [&](int64_t b, int64_t e) { rms_rows(y, x, weight, epsilon, inverse_rms, false, b, e); });
}
void rms_norm_again(Matrix y, ConstMatrix x, const float* weight, const float* inverse_rms) {
  parallel(x.rows, 16,
           [&](int64_t b, int64_t e) { rms_rows(y, x, weight, 0, const_cast<float*>(inverse_rms), true, b, e); });
}

void rms_norm_backward(Matrix d_x, Into into, ConstMatrix d_y, ConstMatrix x, const float* weight,
                       const float* inverse_rms, float* d_weight) {
  std::vector<float> partial(static_cast<size_t>(kBlocks * x.columns), 0.0f);
  parallel(kBlocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      rms_backward_rows(d_x, into, d_y, x, weight, inverse_rms, partial.data() + block * x.columns,
                        x.rows * block / kBlocks, x.rows * (block + 1) / kBlocks);
    }
  });
  for (int64_t block = 0; block < kBlocks; ++block) {
    for (int64_t i = 0; i < x.columns; ++i) d_weight[i] += partial[static_cast<size_t>(block * x.columns + i)];
  }
}

void swiglu(float* act, const float* gate_up, int64_t rows, int64_t inner) {
  parallel(rows, 8, [&](int64_t b, int64_t e) { swiglu_rows(act, gate_up, inner, b, e); });
}
void swiglu_backward(float* act, float* gate_up, const float* d_act, int64_t rows, int64_t inner) {
  parallel(rows, 8, [&](int64_t b, int64_t e) { swiglu_backward_rows(act, gate_up, d_act, inner, b, e); });
}

void rope_table(float* cosines, float* sines, int64_t positions, int size, double theta) {
  const int half = size / 2;
  for (int64_t p = 0; p < positions; ++p) {
    for (int i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(theta, -2.0 * i / size);
      cosines[p * half + i] = static_cast<float>(std::cos(angle));
      sines[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void rope(float* x, int64_t rows, int64_t stride, int heads, int size, const int32_t* position, int shift,
          const float* cosines, const float* sines, bool backward) {
  const int half = size / 2;
  const float sign = backward ? -1.0f : 1.0f;
  parallel(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* c = cosines + int64_t{position[r] + shift} * half;
      const float* s = sines + int64_t{position[r] + shift} * half;
      for (int h = 0; h < heads; ++h) {
        float* low = x + r * stride + h * size;
        float* high = low + half;
#pragma omp simd
        for (int i = 0; i < half; ++i) {
          const float a = low[i], b = high[i], sine = sign * s[i];
          low[i] = a * c[i] - b * sine;
          high[i] = b * c[i] + a * sine;
        }
      }
    }
  });
}

void merge_attention(const MergeArgs& args, const float* prefix_out, const float* prefix_lse, float* out, float* lse) {
  parallel(args.rows, 8, [&](int64_t b, int64_t e) { merge_rows(args, prefix_out, prefix_lse, out, lse, b, e); });
}

void merge_attention_backward(const MergeArgs& args, const float* d_out, const float* out, const float* lse,
                              float* d_query, int64_t d_query_stride, std::span<float* const> d_keys,
                              std::span<float* const> d_values, int64_t d_kv_stride) {
  const OwnGradients own{d_out, out, lse, d_query, d_query_stride, d_keys, d_values, d_kv_stride};
  parallel(args.rows, 8, [&](int64_t b, int64_t e) { merge_backward_rows(args, own, b, e); });
}

void softmax_rows(float* z, int64_t rows, int64_t columns, float* negative_entropy) {
  parallel(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) softmax_row(z + r * columns, columns, negative_entropy + r);
  });
}

void loss_rows(const LossArgs& a, float* z, float* cross_entropy, int32_t* best) {
  parallel(a.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      loss_row(z + r * a.columns, a.teacher + int64_t{a.teacher_row[r]} * a.columns, a.columns, a.coefficient[r],
               a.gradient, cross_entropy + r, best == nullptr ? nullptr : best + r);
    }
  });
}

void add(float* into, const float* x, int64_t count) {
  parallel(count, 1 << 14, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) into[i] += x[i];
  });
}

int64_t argmax(const float* x, int64_t count) { return std::max_element(x, x + count) - x; }

double sum_of_squares(const float* x, int64_t count) {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  std::vector<double> partial(static_cast<size_t>(pieces));
  parallel(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      double sum = 0;
      const int64_t last = std::min(count, (p + 1) * kPiece);
#pragma omp simd reduction(+ : sum)
      for (int64_t i = p * kPiece; i < last; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      partial[static_cast<size_t>(p)] = sum;
    }
  });
  double sum = 0;
  for (const double value : partial) sum += value;
  return sum;
}

void adamw(const AdamArgs& args, float* weight, const float* gradient, float* mean, float* square, int64_t count) {
  parallel(count, 1 << 14, [&](int64_t b, int64_t e) {
    adamw_range(args, weight + b, gradient + b, mean + b, square + b, nullptr, e - b);
  });
}

void adamw_columns(const AdamArgs& args, Matrix weight, const float* gradient, float* mean, float* square,
                   const float* step_scale) {
  parallel(weight.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r * weight.stride;
      adamw_range(args, weight.data + at, gradient + at, mean + at, square + at, step_scale, weight.columns);
    }
  });
}

void scale_columns(Matrix x, const float* scale) {
  parallel(x.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.data + r * x.stride;
#pragma omp simd
      for (int64_t c = 0; c < x.columns; ++c) row[c] *= scale[c];
    }
  });
}

}  // namespace aerie::kernels
