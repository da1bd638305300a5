// MaxPool, AveragePool, LpPool over windows of 1 to 3 spatial dims, and their Global forms over whole planes.
//   max: y = max of the window's elements inside the input; average: their sum / count; Lp: (sum |x|^p)^(1/p)
// Padding is never part of a maximum. The average's count takes in padding if count_include_pad, but not what ceil_mode
// adds beyond the padding. NCHW, or NHWC with attribute `layout`. `Indices` are flat positions in the NCHW tensor.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace kiln::ops::pool {

enum class PoolKind : int32_t { kMax = 0, kAverage = 1, kLp = 2 };

// Spatial axes are (d, h, w); those that a 1-D or 2-D pool lacks have kernel 1.
struct PoolParams {
  int32_t kind = 0;
  int32_t spatial = 2;  // how many there are: 1 to 3
  int32_t kernel[3] = {1, 1, 1};
  int32_t stride[3] = {1, 1, 1};
  int32_t dilation[3] = {1, 1, 1};
  int32_t pad_begin[3] = {};
  int32_t pad_end[3] = {};
  int32_t count_include_pad = 0;
  int32_t column_major = 0;  // order of Indices within a plane (storage_order)
  int32_t is_nhwc = 0;
  int32_t p = 2;  // of Lp
};

struct GlobalPoolParams {
  int32_t kind = 0;
  int32_t is_nhwc = 0;
  int32_t p = 2;
};

// Dims and strides of a tensor as (n, c, d, h, w).
struct PoolTensor {
  int64_t n, c, dims[3];
  int64_t n_stride, c_stride, strides[3];

  PoolTensor(const TensorRef& ref, int spatial, bool is_nhwc) {
    const int c_axis = is_nhwc ? ref.rank - 1 : 1;
    const int first = is_nhwc ? 1 : 2;
    n = ref.dims[0];
    n_stride = ref.strides[0];
    c = ref.dims[c_axis];
    c_stride = ref.strides[c_axis];
    for (int i = 0; i < 3; ++i) {
      const int axis = i - (3 - spatial) + first;
      dims[i] = i < 3 - spatial ? 1 : ref.dims[axis];
      strides[i] = i < 3 - spatial ? 0 : ref.strides[axis];
    }
  }
};

// The taps [begin, end) of a window that fall inside the input, and how many fall inside input and padding.
struct PoolTaps {
  int64_t start;  // input position of tap 0
  int64_t begin, end, padded;

  PoolTaps(const PoolParams& p, int axis, int64_t out_at, int64_t dim) {
    const int64_t d = p.dilation[axis];
    const int64_t k = p.kernel[axis];
    start = out_at * p.stride[axis] - p.pad_begin[axis];
    begin = start < 0 ? (-start + d - 1) / d : 0;
    end = count_below(dim, d, k);
    padded = count_below(dim + p.pad_end[axis], d, k);
    if (begin > end) begin = end;
  }

 private:
  int64_t count_below(int64_t limit, int64_t d, int64_t k) const {
    const int64_t n = limit > start ? (limit - start + d - 1) / d : 0;
    return n < k ? n : k;
  }
};

}  // namespace kiln::ops::pool
