// Matrix products and causal attention on plain float memory: the one place of this room where LibTorch is used.
//
// Functions block and use as many threads as set_threads() allowed. Shapes are the caller's business: a wrong one is a
// defect of ours, and LibTorch's exception for it ends the program with its sentence. Private to train.
#pragma once

#include <cstdint>

namespace aerie::dense {

// Threads for everything in this room, of the calling thread's work; 0 = all cores. Returns the number in use.
int set_threads(int threads);

// A matrix of rows x columns whose row r starts at data + r * stride.
struct Matrix {
  float* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
};
struct ConstMatrix {
  const float* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
  ConstMatrix() = default;
  ConstMatrix(const float* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), columns(c), stride(s) {}
  ConstMatrix(const Matrix& m)
      : data(m.data), rows(m.rows), columns(m.columns), stride(m.stride) {}  // NOLINT: on purpose
};

enum class Into { kReplace, kAdd };

void multiply_nt(Matrix c, ConstMatrix a, ConstMatrix b, Into into);  // c (+)= a b^T
void multiply_nn(Matrix c, ConstMatrix a, ConstMatrix b, Into into);  // c (+)= a b
void multiply_tn(Matrix c, ConstMatrix a, ConstMatrix b, Into into);  // c (+)= a^T b

// Attention heads side by side in a row: query head h reads key head h / (heads / kv_heads).
struct HeadShape {
  int heads = 0, kv_heads = 0, size = 0;
  double scale = 0;
};

// Queries of `rows` rows over `key_rows` rows of keys and values, causal (rows == key_rows) or all to all.
// Row r of the outputs: heads * size values of `out` at out + r * heads * size, and `lse` (natural logarithm of the sum
// of exponentials of scaled scores) at lse + r * heads. O(rows) memory.
void attention(HeadShape shape, bool causal, ConstMatrix query, ConstMatrix key, ConstMatrix value, float* out,
               float* lse);

// The block's share of the gradients, added to d_query, d_key, d_value. `out` and `lse` are those of the *whole*
// softmax that the block is part of (all blocks and diagonals merged), so that P = exp(S - lse) and rowsum(d_out * out)
// are global.
void attention_backward(HeadShape shape, bool causal, ConstMatrix query, ConstMatrix key, ConstMatrix value,
                        const float* d_out, const float* out, const float* lse, Matrix d_query, Matrix d_key,
                        Matrix d_value);

// x = (gram + ridge * I)^-1 rhs for a symmetric positive gram [n, n] and rhs [n, m], solved in double precision. False
// when it cannot be solved (values that are not finite, a gram that is not positive).
bool solve_ridge(Matrix x, ConstMatrix gram, double ridge, ConstMatrix rhs);

// The eigenvectors of the `vectors.columns` largest eigenvalues of a symmetric matrix, as columns, largest first.
bool top_eigenvectors(Matrix vectors, ConstMatrix symmetric);

}  // namespace aerie::dense
