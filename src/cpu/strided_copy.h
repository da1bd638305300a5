// Copying between two strided layouts: what Transpose, Slice, Concat, Split, Tile and DepthToSpace are at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/parallel.h"

namespace kiln {

// One loop of the copy. Strides are in elements and may be 0 or negative on the input side.
struct CopyAxis {
  ptrdiff_t count;
  ptrdiff_t in_stride;
  ptrdiff_t out_stride;
};

// out[sum i_k * out_stride_k] = in[sum i_k * in_stride_k] for all 0 <= i_k < count_k.
// Different index tuples must not write the same element.
struct StridedCopy {
  static constexpr int kMaxAxes = 16;
  int num_axes = 0;
  CopyAxis axes[kMaxAxes];

  void add(ptrdiff_t count, ptrdiff_t in_stride, ptrdiff_t out_stride) {
    axes[num_axes++] = {count, in_stride, out_stride};
  }
};

// Axes are given in any order. `item_bytes` is 1, 2, 4 or 8. The caller vouches for every address.
//
// Axes of length 1 are dropped, the rest sorted by falling output stride and neighbours merged where both sides allow
// it. What remains is one of three innermost loops: runs that are dense on both sides (memcpy), a matrix transposition
// in cache-sized blocks (4 x 4 in registers for 4-byte items), or plain strided loops.
void strided_copy(const Parallel* parallel, StridedCopy copy, const void* in, void* out, int item_bytes);

}  // namespace kiln
