#include "cpu/strided_copy.h"

#include <cstring>

#include "cpu/simd.h"

namespace kiln {
namespace {

// Sorted by falling output stride, without axes of length 1, neighbours merged. False if there is nothing to copy.
bool normalize(StridedCopy& copy) {
  StridedCopy sorted;
  for (int i = 0; i < copy.num_axes; ++i) {
    const CopyAxis axis = copy.axes[i];
    if (axis.count <= 0) return false;
    if (axis.count == 1) continue;
    int at = sorted.num_axes++;
    while (at > 0 && sorted.axes[at - 1].out_stride < axis.out_stride) {
      sorted.axes[at] = sorted.axes[at - 1];
      --at;
    }
    sorted.axes[at] = axis;
  }
  copy.num_axes = 0;
  for (int i = 0; i < sorted.num_axes; ++i) {
    const CopyAxis& axis = sorted.axes[i];
    if (copy.num_axes > 0) {
      CopyAxis& outer = copy.axes[copy.num_axes - 1];
      if (outer.in_stride == axis.count * axis.in_stride && outer.out_stride == axis.count * axis.out_stride) {
        outer = {outer.count * axis.count, axis.in_stride, axis.out_stride};
        continue;
      }
    }
    copy.axes[copy.num_axes++] = axis;
  }
  return true;
}

// out[r * out_stride + c] = in[c * in_stride + r] for a block of rows x cols.
template <typename T>
void transpose_block(const T* in, ptrdiff_t in_stride, T* out, ptrdiff_t out_stride, ptrdiff_t rows, ptrdiff_t cols) {
  for (ptrdiff_t r = 0; r < rows; ++r) {
    for (ptrdiff_t c = 0; c < cols; ++c) out[r * out_stride + c] = in[c * in_stride + r];
  }
}

void transpose_block(const uint32_t* in, ptrdiff_t in_stride, uint32_t* out, ptrdiff_t out_stride, ptrdiff_t rows,
                     ptrdiff_t cols) {
  ptrdiff_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    for (ptrdiff_t c = 0; c < cols; c += 4) {
      const ptrdiff_t width = cols - c < 4 ? cols - c : 4;
      const uint32_t* from = in + c * in_stride + r;
      const v128_t x0 = wasm_v128_load(from);
      const v128_t x1 = width > 1 ? wasm_v128_load(from + in_stride) : x0;
      const v128_t x2 = width > 2 ? wasm_v128_load(from + 2 * in_stride) : x0;
      const v128_t x3 = width > 3 ? wasm_v128_load(from + 3 * in_stride) : x0;
      const v128_t y0 = wasm_i32x4_shuffle(x0, x1, 0, 4, 1, 5);
      const v128_t y1 = wasm_i32x4_shuffle(x2, x3, 0, 4, 1, 5);
      const v128_t y2 = wasm_i32x4_shuffle(x0, x1, 2, 6, 3, 7);
      const v128_t y3 = wasm_i32x4_shuffle(x2, x3, 2, 6, 3, 7);
      const v128_t z[4] = {wasm_i64x2_shuffle(y0, y1, 0, 2), wasm_i64x2_shuffle(y0, y1, 1, 3),
                           wasm_i64x2_shuffle(y2, y3, 0, 2), wasm_i64x2_shuffle(y2, y3, 1, 3)};
      uint32_t* to = out + r * out_stride + c;
      for (int k = 0; k < 4; ++k, to += out_stride) {
        if (width == 4) {
          wasm_v128_store(to, z[k]);
        } else if (width == 3) {
          wasm_v128_store64_lane(to, z[k], 0);
          wasm_v128_store32_lane(to + 2, z[k], 2);
        } else if (width == 2) {
          wasm_v128_store64_lane(to, z[k], 0);
        } else {
          wasm_v128_store32_lane(to, z[k], 0);
        }
      }
    }
  }
  for (; r < rows; ++r) {
    for (ptrdiff_t c = 0; c < cols; ++c) out[r * out_stride + c] = in[c * in_stride + r];
  }
}

// `row` runs along the input, `col` along the output; both sides have stride 1 there.
template <typename T>
void transpose_matrix(const CopyAxis& row, const CopyAxis& col, const T* in, T* out) {
  constexpr ptrdiff_t kBlock = 32;
  for (ptrdiff_t r = 0; r < row.count; r += kBlock) {
    const ptrdiff_t rows = row.count - r < kBlock ? row.count - r : kBlock;
    for (ptrdiff_t c = 0; c < col.count; c += kBlock) {
      const ptrdiff_t cols = col.count - c < kBlock ? col.count - c : kBlock;
      transpose_block(in + c * col.in_stride + r, col.in_stride, out + r * row.out_stride + c, row.out_stride, rows,
                      cols);
    }
  }
}

template <typename T>
void copy_items(const StridedCopy& copy, const T* in, T* out) {
  if (copy.num_axes == 0) {
    *out = *in;
    return;
  }
  const CopyAxis inner = copy.axes[copy.num_axes - 1];
  int num_outer = copy.num_axes - 1;
  CopyAxis outer[StridedCopy::kMaxAxes];
  for (int i = 0; i < num_outer; ++i) outer[i] = copy.axes[i];

  int row_axis = -1;
  if (inner.out_stride == 1 && inner.in_stride != 1) {
    for (int i = 0; i < num_outer; ++i) {
      if (outer[i].in_stride == 1) row_axis = i;
    }
  }
  CopyAxis row = {1, 1, 0};
  if (row_axis >= 0) {
    row = outer[row_axis];
    --num_outer;
    for (int i = row_axis; i < num_outer; ++i) outer[i] = outer[i + 1];
  }
  const bool dense = inner.in_stride == 1 && inner.out_stride == 1;

  ptrdiff_t index[StridedCopy::kMaxAxes] = {};
  for (;;) {
    if (row_axis >= 0) {
      transpose_matrix(row, inner, in, out);
    } else if (dense && inner.count * static_cast<ptrdiff_t>(sizeof(T)) >= 64) {
      std::memcpy(out, in, static_cast<size_t>(inner.count) * sizeof(T));
    } else {
      for (ptrdiff_t i = 0; i < inner.count; ++i) out[i * inner.out_stride] = in[i * inner.in_stride];
    }
    int axis = num_outer - 1;
    for (; axis >= 0; --axis) {
      if (++index[axis] < outer[axis].count) {
        in += outer[axis].in_stride;
        out += outer[axis].out_stride;
        break;
      }
      index[axis] = 0;
      in -= (outer[axis].count - 1) * outer[axis].in_stride;
      out -= (outer[axis].count - 1) * outer[axis].out_stride;
    }
    if (axis < 0) return;
  }
}

}  // namespace

void strided_copy(const Parallel* parallel, StridedCopy copy, const void* in, void* out, int item_bytes) {
  if (!normalize(copy)) return;
  // A tile is a range of the longest axis that is not the innermost one (or of the only axis).
  int split = 0;
  ptrdiff_t total = item_bytes;
  for (int i = 0; i < copy.num_axes; ++i) {
    total *= copy.axes[i].count;
    if (i + 1 < copy.num_axes && copy.axes[i].count > copy.axes[split].count) split = i;
  }
  constexpr ptrdiff_t kTileBytes = 64 * 1024;
  const ptrdiff_t count = copy.num_axes > 0 ? copy.axes[split].count : 1;
  ptrdiff_t tiles = total / kTileBytes;
  if (tiles > 64) tiles = 64;
  if (tiles > count) tiles = count;
  if (tiles < 1) tiles = 1;
  const ptrdiff_t chunk = (count + tiles - 1) / tiles;
  tiles = (count + chunk - 1) / chunk;

  parallel_for(parallel, static_cast<int>(tiles), [&](int tile, int) {
    StridedCopy part = copy;
    ptrdiff_t in_offset = 0;
    ptrdiff_t out_offset = 0;
    if (copy.num_axes > 0) {
      CopyAxis& axis = part.axes[split];
      const ptrdiff_t begin = tile * chunk;
      axis.count = count - begin < chunk ? count - begin : chunk;
      in_offset = begin * axis.in_stride;
      out_offset = begin * axis.out_stride;
    }
    switch (item_bytes) {
      case 1:
        copy_items(part, static_cast<const uint8_t*>(in) + in_offset, static_cast<uint8_t*>(out) + out_offset);
        break;
      case 2:
        copy_items(part, static_cast<const uint16_t*>(in) + in_offset, static_cast<uint16_t*>(out) + out_offset);
        break;
      case 4:
        copy_items(part, static_cast<const uint32_t*>(in) + in_offset, static_cast<uint32_t*>(out) + out_offset);
        break;
      case 8:
        copy_items(part, static_cast<const uint64_t*>(in) + in_offset, static_cast<uint64_t*>(out) + out_offset);
        break;
      default:
        break;
    }
  });
}

}  // namespace kiln
