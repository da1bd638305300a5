#include "cpu/gemm_tile.h"

#include <algorithm>

#include "cpu/activation_f32.h"

namespace kiln {
namespace {

// What tiles and strips share, on sums that live in registers: (rows, vectors), two vectors a panel.
template <int32_t kRows, int32_t kVectors>
using Sums = v128_t[kRows][kVectors];

template <int32_t kRows, int32_t kVectors>
inline void start_at_bias(const float* bias, int32_t bias_stride, Sums<kRows, kVectors>& sums) {
  KILN_UNROLL
  for (int32_t j = 0; j < kVectors; ++j) {
    const v128_t x = wasm_v128_load(bias + j / 2 * bias_stride + j % 2 * 4);
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) sums[r][j] = x;
  }
}

// Adds `depth` steps of k, over which each row of A is contiguous; b goes on behind them.
template <int32_t kRows, int32_t kVectors>
inline void add_products(int32_t depth, const float* (&a)[kRows], const float*& b0, const float*& b1,
                         Sums<kRows, kVectors>& sums) {
  KILN_NO_UNROLL
  for (; depth > 0; --depth) {
    v128_t b[kVectors];
    b[0] = wasm_v128_load(b0);
    b[1] = wasm_v128_load(b0 + 4);
    b0 += kPanelColumns;
    if constexpr (kVectors == 4) {
      b[2] = wasm_v128_load(b1);
      b[3] = wasm_v128_load(b1 + 4);
      b1 += kPanelColumns;
    }
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      const v128_t x = wasm_v128_load32_splat(a[r]++);
      KILN_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = f32x4_madd(x, b[j], sums[r][j]);
    }
  }
}

template <int32_t kVectors>
inline void add_row(const float* row, v128_t (&sums)[kVectors]) {
  KILN_UNROLL
  for (int32_t j = 0; j < kVectors; ++j) sums[j] = wasm_f32x4_add(sums[j], wasm_v128_load(row + 4 * j));
}

template <int32_t kRows, int32_t kVectors>
inline void clip(float low, float high, Sums<kRows, kVectors>& sums) {
  const v128_t lows = wasm_f32x4_splat(low);
  const v128_t highs = wasm_f32x4_splat(high);
  KILN_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    KILN_UNROLL
    for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = clip_f32x4(sums[r][j], lows, highs);
  }
}

template <int32_t kVectors>
inline void load_row(const float* row, v128_t (&sums)[kVectors]) {
  KILN_UNROLL
  for (int32_t j = 0; j < kVectors; ++j) sums[j] = wasm_v128_load(row + 4 * j);
}

template <int32_t kVectors>
inline void store_row(const v128_t (&sums)[kVectors], float* row) {
  KILN_UNROLL
  for (int32_t j = 0; j < kVectors; ++j) wasm_v128_store(row + 4 * j, sums[j]);
}

// Written for two code generators. V8 has 16 vector registers and keeps them only in short loops of one step of k. Its
// revectorizer joins neighbouring 128-bit operations where the stores that end them have one base: so the pointers of c
// are read before the first store, which could change them for all that the compiler knows.
template <int32_t kRows, int32_t kPanels>
[[gnu::noinline]] void run_tile(const TileCall& call) {
  Sums<kRows, 2 * kPanels> sums;
  if (call.bias != nullptr) {
    start_at_bias<kRows, 2 * kPanels>(call.bias, call.bias_stride, sums);
  } else {
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) load_row(call.c[r] + call.column, sums[r]);
  }
  const float* b0 = call.b;
  const float* b1 = call.b + call.panel_stride;
  const RowSegment* const end = call.segments + call.num_segments;
  for (const RowSegment* segment = call.segments; segment != end; ++segment) {
    const float* a[kRows];
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) a[r] = segment->rows[r];
    add_products<kRows, 2 * kPanels>(segment->length, a, b0, b1, sums);
  }
  if (call.ends) {
    if (call.residual != nullptr) {
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) add_row(call.residual[r] + call.column, sums[r]);
    }
    clip<kRows, 2 * kPanels>(call.low, call.high, sums);
  }
  float* c[kRows];
  KILN_UNROLL
  for (int32_t r = 0; r < kRows; ++r) c[r] = call.c[r] + call.column;
  KILN_UNROLL
  for (int32_t r = 0; r < kRows; ++r) store_row(sums[r], c[r]);
}

template <int32_t kRows, int32_t kPanels>
[[gnu::noinline]] void run_strip(const StripCall& call) {
  const float* a_row = call.a;
  const float* residual = call.residual;
  float* c_row = call.c;
  for (int32_t tile = call.num_tiles; tile > 0; --tile) {
    Sums<kRows, 2 * kPanels> sums;
    if (call.bias != nullptr) {
      start_at_bias<kRows, 2 * kPanels>(call.bias, call.bias_stride, sums);
    } else {
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) load_row(c_row + r * call.c_stride, sums[r]);
    }
    const float* a[kRows];
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r, a_row += call.a_stride) a[r] = a_row;
    const float* b0 = call.b;
    const float* b1 = call.b + call.panel_stride;
    add_products<kRows, 2 * kPanels>(call.k, a, b0, b1, sums);
    if (call.ends) {
      if (residual != nullptr) {
        KILN_UNROLL
        for (int32_t r = 0; r < kRows; ++r, residual += call.residual_stride) add_row(residual, sums[r]);
      }
      clip<kRows, 2 * kPanels>(call.low, call.high, sums);
    }
    const int64_t c_stride = call.c_stride;
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r, c_row += c_stride) store_row(sums[r], c_row);
  }
}

template <int32_t kRows, int32_t kPanels>
constexpr TileFns kFns = {run_tile<kRows, kPanels>, run_strip<kRows, kPanels>};

constexpr TileKernel k4x8 = {"4x8", 4, 1, kFns<4, 1>, kFns<4, 1>, kFns<4, 1>, kFns<4, 1>};
constexpr TileKernel k6x8 = {"6x8", 6, 1, kFns<6, 1>, kFns<6, 1>, kFns<4, 1>, kFns<4, 1>};
constexpr TileKernel k6x16 = {"6x16", 6, 2, kFns<6, 2>, kFns<6, 1>, kFns<4, 2>, kFns<4, 1>};

// A multiply-add of one instruction leaves registers for two rows more.
#ifdef __wasm_relaxed_simd__
constexpr TileKernel kKernels[] = {k6x8, k4x8, k6x16};
#else
constexpr TileKernel kKernels[] = {k4x8, k6x8, k6x16};
#endif

int32_t selected = 0;

}  // namespace

std::span<const TileKernel> tile_kernels() { return kKernels; }

const TileKernel& tile_kernel() { return kKernels[selected]; }

void select_tile_kernel(int32_t index) {
  if (index >= 0 && index < static_cast<int32_t>(std::size(kKernels))) selected = index;
}

int32_t selected_tile_kernel() { return selected; }

int64_t try_tile_kernel(int32_t index, int32_t num_calls) {
  constexpr int32_t kDepth = 128;
  const TileKernel& kernel = kKernels[index];
  alignas(64) const float a[kMaxTileRows * kDepth] = {};
  alignas(64) const float b[2 * kDepth * kPanelColumns] = {};
  alignas(64) float c[kMaxTileRows * 2 * kPanelColumns];
  const float bias[2 * kPanelColumns] = {};
  RowSegment segment;
  float* rows[kMaxTileRows];
  for (int32_t r = 0; r < kMaxTileRows; ++r) {
    segment.rows[r] = a + r * kDepth;
    rows[r] = c + r * 2 * kPanelColumns;
  }
  segment.length = kDepth;
  TileCall tile = {};
  tile.segments = &segment;
  tile.num_segments = 1;
  tile.c = rows;
  StripCall strip = {};
  strip.num_tiles = 1;
  strip.k = kDepth;
  strip.a = a;
  strip.a_stride = kDepth;
  strip.c = c;
  strip.c_stride = 2 * kPanelColumns;
  tile.b = strip.b = b;
  tile.panel_stride = strip.panel_stride = kDepth * kPanelColumns;
  tile.bias = strip.bias = bias;
  tile.bias_stride = strip.bias_stride = kPanelColumns;
  for (int32_t i = 0; i < num_calls; i += 2) {
    kernel.full.tile(tile);
    kernel.full.strip(strip);
  }
  return (int64_t{num_calls} + 1) / 2 * 2 * kDepth * kernel.rows * kernel.panels * kPanelColumns;
}

}  // namespace kiln
