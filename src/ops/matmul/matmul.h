// MatMul and Gemm: y[b,m,n] = act(alpha * sum_k a[b,m,k] * b[b,k,n] + beta * c[m,n]).
//
// Gemm: rank 2, transA, transB, alpha, beta, optional c that broadcasts to (m, n). MatMul: NumPy's rules (1-D
// operands, batch dims broadcast); passes may add a third input, a bias of n values. Both take the fused
// `activation*` attributes (ops/activation.h).
//
// Kernels:
//   matmul_f32_gemm8          b (and a bias of n values) packed at compile time, cpu/gemm.h. Inputs: a,
//   packed, c or absent. matmul_f32_gemm8_dynamic  b computed at run time, packed into scratch. Inputs: a, b,
//   c or absent. matmul_any_plain          any float or integer dtype, plain loops, which is also the
//   reference. Inputs: a, b, c.
#pragma once

#include <cstdint>

#include "cpu/activation_kind.h"

namespace kiln::ops::matmul {

constexpr int kMaxBatchRank = 6;

struct MatmulParams {
  int32_t m = 0, n = 0, k = 0;  // of one product; where b has no batch, the batches of a are more rows
  int32_t batch_rank = 0;
  int32_t batch_dims[kMaxBatchRank] = {};
  int32_t a_steps[kMaxBatchRank] = {};  // matrices of a from one index of a batch axis to the next; 0 = broadcast
  int32_t b_steps[kMaxBatchRank] = {};
  int32_t trans_a = 0, trans_b = 0;
  int32_t c_row_stride = 0, c_column_stride = 0;  // elements; 0 = broadcast
  float alpha = 1, beta = 1;
  Activation activation;
};

}  // namespace kiln::ops::matmul
