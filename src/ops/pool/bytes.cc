// pool_bytes: MaxPool of 8-bit numbers in NHWC, sixteen channels at a time. A maximum needs no scale, so these are the
// quantised numbers themselves.
#include <algorithm>

#include "cpu/simd.h"
#include "ops/kernel.h"
#include "ops/pool/pool.h"

namespace kiln::ops::pool {

namespace {

struct ByteWindow {
  const uint8_t* from;
  int64_t rows, columns;
  int64_t row_step, column_step;
};

// Signed numbers are compared as unsigned ones with the sign bit flipped.
void max_channels(const ByteWindow& w, int64_t channels, uint8_t flip, uint8_t* to) {
  const v128_t flips = wasm_i8x16_splat(static_cast<int8_t>(flip));
  int64_t c = 0;
  for (; c + 16 <= channels; c += 16) {
    v128_t most = wasm_i8x16_splat(0);
    for (int64_t r = 0; r < w.rows; ++r) {
      const uint8_t* x = w.from + r * w.row_step + c;
      for (int64_t k = 0; k < w.columns; ++k, x += w.column_step) {
        most = wasm_u8x16_max(most, wasm_v128_xor(wasm_v128_load(x), flips));
      }
    }
    wasm_v128_store(to + c, wasm_v128_xor(most, flips));
  }
  for (; c < channels; ++c) {
    int most = 0;
    for (int64_t r = 0; r < w.rows; ++r) {
      const uint8_t* x = w.from + r * w.row_step + c;
      for (int64_t k = 0; k < w.columns; ++k, x += w.column_step) most = std::max(most, *x ^ flip);
    }
    to[c] = static_cast<uint8_t>(most ^ flip);
  }
}

}  // namespace

void pool_bytes(const KernelArgs& args) {
  const auto& p = args.params_as<PoolParams>();
  const PoolTensor x(args.in[0], p.spatial, true);
  const PoolTensor y(args.out[0], p.spatial, true);
  if (args.out[0].num_elements() == 0) return;
  const uint8_t flip = args.in[0].dtype == DType::kI8 ? 0x80 : 0;
  parallel_for(args.parallel, static_cast<int>(y.n * y.dims[1]), [&](int tile, int) {
    const int64_t oh = tile % y.dims[1];
    const int64_t n = tile / y.dims[1];
    const PoolTaps rows(p, 1, oh, x.dims[1]);
    ByteWindow w;
    w.rows = rows.end - rows.begin;
    w.row_step = p.dilation[1] * x.strides[1];
    w.column_step = p.dilation[2] * x.strides[2];
    for (int64_t ow = 0; ow < y.dims[2]; ++ow) {
      const PoolTaps columns(p, 2, ow, x.dims[2]);
      w.columns = columns.end - columns.begin;
      w.from = args.in[0].as<uint8_t>() + n * x.n_stride;
      if (w.rows > 0 && w.columns > 0) {
        w.from += (rows.start + rows.begin * p.dilation[1]) * x.strides[1] +
                  (columns.start + columns.begin * p.dilation[2]) * x.strides[2];
      }
      uint8_t* to = args.out[0].as<uint8_t>() + n * y.n_stride + oh * y.strides[1] + ow * y.strides[2];
      max_channels(w, y.c, flip, to);
    }
  });
}

}  // namespace kiln::ops::pool
