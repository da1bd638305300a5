// C = act(A B + bias + residual) in f32: the product behind Conv, ConvTranspose, Gemm and MatMul.
//
// After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), with A made on the
// fly:
// 1. B lies packed in panels of eight columns; rows of A, whatever they are in memory, are packed into tiles
// of four.
// 2. A block of A (some rows by at most kMaxDepth of k) is packed once and stays in the L2 cache.
// 3. For each panel, whose part of that depth stays in L1, a register tile of 4 x 8 sums runs over each tile
// of A.
// 4. Between blocks of k the sums rest in C; the last block adds the residual and applies the activation.
// Packing A makes padding, strides, dilation, groups and channel views the business of the packing function
// alone (for a convolution it is im2col that never leaves the cache). An output's sum is taken in the order
// of k whatever the tiling, so its bits depend neither on threads nor on blocking.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/activation_kind.h"
#include "cpu/parallel.h"

namespace kiln {

constexpr int32_t kTileRows = 4;
constexpr int32_t kPanelColumns = 8;

// Packs rows [row, row + num_rows) and columns [k_begin, k_end) of the A of `group`: out is (tile, k, 4),
// rows behind the last one repeat it.
using PackRowsFn = void (*)(const void* context, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                            int32_t k_end, float* out);

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
  PackRowsFn pack_rows = nullptr;
  const void* pack_context = nullptr;
  const float* b = nullptr;  // packed_b_floats(n, k) for each group
  float* c = nullptr;
  GemmRows c_rows;
  bool accumulate = false;  // start from what C holds instead of from the panels' bias
  const float* residual = nullptr;
  GemmRows residual_rows;
  bool residual_after = false;  // act(sum) + residual, not act(sum + residual)
  Activation activation;
};

// Scratch of run_gemm. The same for any number of threads.
size_t gemm_scratch_bytes(int32_t num_groups, int32_t m, int32_t n, int32_t k);
void run_gemm(const Gemm& gemm, const Parallel* parallel, void* scratch);

// C (4, 8) = A B for one tile of packed A (k, 4) and one panel's (k, 8): the innermost loop by itself.
void multiply_tile(int32_t k, const float* a, const float* b, float* c);

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

// Packed: for each panel 8 biases, then (k, 8); columns behind the last are zero. Saturates instead of
// overflowing.
int64_t packed_b_floats(int64_t n, int64_t k);
int32_t num_panels(int32_t n);
void pack_b_panel(const SourceB& b, int32_t panel, float* packed);  // `packed`: start of the group
void pack_b(const SourceB& b, const Parallel* parallel, float* packed);

// The common kinds of rows: four pointers, `count` floats each, into (count, 4).
void pack_four_rows(const float* const rows[kTileRows], int32_t count, float* out);

// Rows of a row-major matrix, or of its transpose: element (row, k) at row * row_stride + k * k_stride, one
// of them 1.
struct MatrixRows {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t k_stride = 1;
};
void pack_matrix_rows(const void* matrix_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                      int32_t k_end, float* out);

// Rows of a convolution: row (i, y, x) of the output, k = (kernel y, kernel x, channel), over NHWC pixels
// that are `pixel_stride` floats apart. Padding reads `zeros`, which holds kernel_w * group_channels of them.
// A negative dilation walks backwards.
struct WindowRows {
  const float* x = nullptr;
  const float* zeros = nullptr;
  int64_t image_stride = 0;
  int64_t pixel_stride = 0;
  int32_t height = 0, width = 0;          // of the input
  int32_t out_height = 0, out_width = 0;  // of the grid of rows
  int32_t kernel_w = 0;                   // the kernel's height follows from k
  int32_t stride_h = 1, stride_w = 1;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t pad_top = 0, pad_left = 0;
  int32_t group_channels = 0;
};
void pack_window_rows(const void* window_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                      int32_t k_end, float* out);
// The same over dense NCHW images; pixel_stride and zeros are not used.
void pack_planar_window_rows(const void* window_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                             int32_t k_end, float* out);

}  // namespace kiln
