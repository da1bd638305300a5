// The product behind quantised convolutions: 8-bit rows times 8-bit weights, exact 32-bit sums, and what makes
// numbers of another scale of them.
//
// Rows are widened to 16 bits as they are gathered, a block of them at a time; `i32x4.dot_i16x8_s` then takes two
// positions of k at once and can neither saturate nor round (255 * -128 and its sums fit). Sums wrap as int32, in any
// order: the bits are the same for every instruction set, tile and number of threads.
//
// An output is made of its sum as follows, each operation rounded to f32 by itself (never fused):
//   s = f32(sum) * multiplier[column] (+ f32(residual - residual_zero) * residual_multiplier, before the activation)
//   with an activation: s = activation(s) * gain (+ the residual, after it)      cpu/exact_activation.h
//   8-bit:  y = clamp(round(s), low, high) + zero      round: half to even, as ONNX's QuantizeLinear
//   f32:    y = clamp(s, low, high)
// onnxruntime rescales in the same way (a float multiplication, nearest even), so results agree but for ties.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "cpu/activation_kind.h"
#include "cpu/parallel.h"

namespace kiln {

constexpr int32_t kQuantColumns = 8;  // of a panel of weights

struct QuantRescale {
  const float* multiplier = nullptr;  // a column, padded to whole panels
  Activation activation;              // what bounds are not enough for
  bool computes = false;              // that activation
  float gain_of_all = 1;              // times what it gives
  const float* gain = nullptr;        // or one a column
  float low = 0, high = 0;
  int32_t zero = 0;
  DType dtype = DType::kU8;  // of y: kU8, kI8 or kF32
  // The residual, of y's shape: kU8 or kI8.
  DType residual_dtype = DType::kInvalid;
  bool residual_after = false;
  int32_t residual_zero = 0;
  float residual_multiplier = 0;
};

// Eight neighbouring outputs' sums to outputs; `residual` and `y` point at the first. Only `count` are read and
// written.
void rescale_sums(const QuantRescale& rescale, const int32_t* sums, int32_t column, int32_t count, const void* residual,
                  void* y);
// The plain form for one output: the reference.
void rescale_sum(const QuantRescale& rescale, int32_t sum, int32_t column, const void* residual, void* y);

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
