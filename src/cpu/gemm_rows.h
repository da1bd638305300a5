// Where the rows of a product's A lie in memory: pointers for the innermost loop, so that A is hardly ever copied.
//
// After M. Dukhan, "The Indirect Convolution Algorithm" (2019): a convolution's row is a stretch of channels for each
// position of its window, found through pointers, those outside the image pointing at zeros.
#pragma once

#include <cstdint>

#include "cpu/gemm_tile.h"

namespace kiln {

// What a product needs to know of its rows before it runs.
struct RowForm {
  int32_t num_segments = 1;  // a row's, in all of k, at most
  int32_t min_length = 1;    // of a segment that is not cut by the end of a block of k
  bool is_copied = false;    // gathered into scratch, (rows, depth), as one segment
};

// The segments of a tile: rows [row, row + num_rows), columns [k_begin, k_end) of the A of `group`. Rows behind the
// last repeat it. `copy` takes kMaxTileRows * (k_end - k_begin) floats where rows are copied. Returns the number of
// segments.
using LocateRowsFn = int32_t (*)(const void* context, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                                 int32_t k_end, float* copy, RowSegment* segments);

// Rows of a row-major matrix, or of its transpose: element (row, k) at row * row_stride + k * k_stride, one of them 1.
struct MatrixRows {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t k_stride = 1;
  int64_t group_stride = 0;
};
RowForm matrix_form(bool is_transposed);
int32_t locate_matrix_rows(const void* matrix_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                           int32_t k_end, float* copy, RowSegment* segments);

// Rows of a convolution: row (i, y, x) of the output, k = (kernel y, kernel x, channel), over NHWC pixels that are
// `pixel_stride` floats apart. Padding reads `zeros`, which holds kernel_w * group_channels of them. A negative
// dilation walks backwards.
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
  bool is_copied = false;  // as in the form
  bool is_inner = false;   // inner_window_form holds
};
RowForm window_form(int32_t taps, int32_t group_channels);
// The same for windows that never meet padding, over dense pixels, without dilation: a segment a kernel row.
RowForm inner_window_form(int32_t kernel_h, int32_t kernel_w, int32_t channels);
int32_t locate_window_rows(const void* window_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                           int32_t k_end, float* copy, RowSegment* segments);

}  // namespace kiln
