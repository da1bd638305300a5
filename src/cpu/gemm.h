// C = act(A B + bias + residual) in f32: the product behind Conv, ConvTranspose, Gemm and MatMul.
//
// After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), with A left where it is:
// 1. B lies packed in panels of eight columns (cpu/pack_b.h); rows of A are found through pointers (cpu/gemm_rows.h).
// 2. A block of A is some rows by at most kMaxDepth of k, small enough for the L2 cache.
// 3. For each panel, whose part of that depth stays in L1, a register tile of sums (cpu/gemm_tile.h) runs over the
// rows.
// 4. Between blocks of k the sums rest in C; the last block adds the residual and applies the activation.
// Padding, strides, dilation, groups and channel views are the business of the function that locates rows alone. An
// output's sum is taken in the order of k whatever the tiling (in four interleaved sums where m is 1), so its bits
// depend neither on threads nor on the register tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/activation_kind.h"
#include "cpu/gemm_rows.h"
#include "cpu/pack_b.h"
#include "cpu/parallel.h"

namespace kiln {

// Row r of C is row (i, y, x) of a grid: r = (i * height + y) * width + x.
struct GemmRows {
  int32_t width = 1;
  int32_t height = 1;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  int64_t i_stride = 0;
};
// Rows that are all `stride` floats apart.
GemmRows make_plain_rows(int32_t m, int64_t stride);

struct Gemm {
  int32_t num_groups = 1;
  int32_t m = 0;
  int32_t n = 0;  // columns of one group; group g's are [g * n, (g + 1) * n) of C
  int32_t k = 0;
  RowForm row_form;
  LocateRowsFn locate_rows = nullptr;
  const void* rows_context = nullptr;
  const float* b = nullptr;  // packed_b_floats(n, k) for each group
  float* c = nullptr;
  GemmRows c_rows;
  bool accumulate = false;  // start from what C holds instead of from the panels' bias
  const float* residual = nullptr;
  GemmRows residual_rows;
  bool residual_after = false;  // act(sum) + residual, not act(sum + residual)
  Activation activation;
};

// Scratch of run_gemm on one thread, for any number of groups and columns and up to m rows.
size_t gemm_slot_bytes(int32_t m, int32_t k, const RowForm& form);
// Scratch of run_gemm, for any number of threads.
size_t gemm_scratch_bytes(int32_t num_groups, int32_t m, int32_t n, int32_t k, const RowForm& form);
void run_gemm(const Gemm& gemm, const Parallel* parallel, void* scratch);

}  // namespace kiln
