// Walks the batches of a product: which matrix of a and of b makes which matrix of y, and what its kernels check.
#pragma once

#include "ops/kernel.h"
#include "ops/matmul/matmul.h"

namespace kiln::ops::matmul {

inline int64_t num_batches(const MatmulParams& p) {
  int64_t count = 1;
  for (int i = 0; i < p.batch_rank; ++i) count *= p.batch_dims[i];
  return count;
}

struct MatrixPair {
  int64_t a = 0, b = 0;  // indices of matrices
};

inline MatrixPair pair_of_batch(const MatmulParams& p, int64_t batch) {
  MatrixPair pair;
  for (int i = p.batch_rank - 1; i >= 0; --i) {
    const int64_t index = batch % p.batch_dims[i];
    batch /= p.batch_dims[i];
    pair.a += index * p.a_steps[i];
    pair.b += index * p.b_steps[i];
  }
  return pair;
}

// Every index that the batches, a, b, c and y are read or written at lies within its tensor.
Status check_product(const KernelArgs& args, bool packed_b);

}  // namespace kiln::ops::matmul
