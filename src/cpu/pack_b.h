// The B of cpu/gemm.h in memory: panels of eight columns, each with its biases before it.
#pragma once

#include <cstdint>

#include "cpu/gemm_tile.h"
#include "cpu/parallel.h"

namespace kiln {

// B in memory: element (k, n) of a group, with k = outer * k_inner + inner, at
// n * n_stride + outer * outer_stride + inner * inner_stride.
struct SourceB {
  const float* data = nullptr;
  int32_t n = 0;
  int32_t k_outer = 1;
  int32_t k_inner = 0;
  int64_t n_stride = 0;
  int64_t outer_stride = 0;
  int64_t inner_stride = 0;
  float scale = 1;
  const float* bias = nullptr;  // null for zeros
  int64_t bias_stride = 1;
  float bias_scale = 1;
};

// Packed: for each panel 8 biases, then (k, 8); columns behind the last are zero. Saturates instead of overflowing.
int64_t packed_b_floats(int64_t n, int64_t k);
int32_t num_panels(int32_t n);
void pack_b_panel(const SourceB& b, int32_t panel, float* packed);  // `packed`: start of the group
void pack_b(const SourceB& b, const Parallel* parallel, float* packed);

}  // namespace kiln
