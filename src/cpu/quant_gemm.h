// The product behind quantised convolutions: 8-bit rows times 8-bit weights, exact 32-bit sums, and what makes
// numbers of another scale of them.
//
// Rows are widened to 16 bits as they are gathered, a block of them at a time; `i32x4.dot_i16x8_s` then takes two
// positions of k at once and can neither saturate nor round (255 * -128 and its sums fit). Sums wrap as int32, in any
// order: the bits are the same for every instruction set, tile and number of threads.
//
// What makes outputs of the sums is cpu/quant_rescale.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/parallel.h"
#include "cpu/quant_rescale.h"

namespace kiln {

// Rows [row, row + num_rows) of the A of `group`, as 16-bit values, `stride` apart; entries [k, stride) are written too
// and may be anything.
using WidenRowsFn = void (*)(const void* context, int32_t group, int32_t row, int32_t num_rows, int16_t* to,
                             int32_t stride);

struct QuantGemm {
  int32_t num_groups = 1;
  int32_t m = 0, n = 0, k = 0;  // n: columns of one group
  WidenRowsFn widen_rows = nullptr;
  const void* rows_context = nullptr;
  const int8_t* b = nullptr;      // quant_b_bytes(n, k) for each group
  const int32_t* bias = nullptr;  // a column, groups padded to whole panels; so is rescale.multiplier
  QuantRescale rescale;
  void* c = nullptr;
  int64_t c_stride = 0;  // elements from row to row
  const void* residual = nullptr;
  int64_t residual_stride = 0;
};

inline int32_t quant_panels(int64_t n) { return static_cast<int32_t>((n + kQuantColumns - 1) / kQuantColumns); }
inline int64_t quant_depth(int64_t k) { return (k + 1) / 2 * 2; }
// Packed weights of a group: for each panel (pairs of k, 8 columns, 2); zeros where there are none.
inline int64_t quant_b_bytes(int64_t n, int64_t k) { return quant_panels(n) * quant_depth(k) * kQuantColumns; }

// Scratch of a thread, and how many threads at most have one.
int32_t quant_block_rows(int32_t m, int32_t k);
uint64_t quant_gemm_scratch_bytes(int32_t m, int32_t k);

void run_quant_gemm(const QuantGemm& gemm, const Parallel* parallel, void* scratch);

}  // namespace kiln
