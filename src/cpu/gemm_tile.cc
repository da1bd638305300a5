#include "cpu/gemm_tile.h"

#include <algorithm>

#include "cpu/activation_f32.h"

namespace kiln {
namespace {

template <int32_t kRows, int32_t kVectors>
inline void add_step(const float* (&a)[kRows], const v128_t (&b)[kVectors], v128_t (&sums)[kRows][kVectors]) {
  KILN_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    const v128_t x = wasm_v128_load32_splat(a[r]++);
    KILN_UNROLL
    for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = f32x4_madd(x, b[j], sums[r][j]);
  }
}

// Written for two code generators. V8 has 16 vector registers and keeps them only in short loops of one step of k. Its
// revectorizer joins neighbouring 128-bit operations where the stores that end them have one base: so the pointers of c
// are read before the first store, which could change them for all that the compiler knows.
template <int32_t kRows, int32_t kPanels>
[[gnu::noinline]] void run_tile(const TileCall& call) {
  constexpr int32_t kVectors = 2 * kPanels;
  v128_t sums[kRows][kVectors];
  if (call.bias != nullptr) {
    KILN_UNROLL
    for (int32_t j = 0; j < kVectors; ++j) {
      const v128_t bias = wasm_v128_load(call.bias + j / 2 * call.bias_stride + j % 2 * 4);
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) sums[r][j] = bias;
    }
  } else {
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      KILN_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = wasm_v128_load(call.c[r] + call.column + 4 * j);
    }
  }
  const float* b0 = call.b;
  const float* b1 = call.b + call.panel_stride;
  const RowSegment* const end = call.segments + call.num_segments;
  for (const RowSegment* segment = call.segments; segment != end; ++segment) {
    const float* a[kRows];
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) a[r] = segment->rows[r];
    KILN_NO_UNROLL
    for (int32_t k = segment->length; k > 0; --k) {
      v128_t b[kVectors];
      b[0] = wasm_v128_load(b0);
      b[1] = wasm_v128_load(b0 + 4);
      b0 += kPanelColumns;
      if constexpr (kPanels == 2) {
        b[2] = wasm_v128_load(b1);
        b[3] = wasm_v128_load(b1 + 4);
        b1 += kPanelColumns;
      }
      add_step<kRows, kVectors>(a, b, sums);
    }
  }
  if (call.ends) {
    if (call.residual != nullptr) {
      const float* residual[kRows];
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) residual[r] = call.residual[r] + call.column;
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) {
        KILN_UNROLL
        for (int32_t j = 0; j < kVectors; ++j) {
          sums[r][j] = wasm_f32x4_add(sums[r][j], wasm_v128_load(residual[r] + 4 * j));
        }
      }
    }
    const v128_t low = wasm_f32x4_splat(call.low);
    const v128_t high = wasm_f32x4_splat(call.high);
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      KILN_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = clip_f32x4(sums[r][j], low, high);
    }
  }
  float* c[kRows];
  KILN_UNROLL
  for (int32_t r = 0; r < kRows; ++r) c[r] = call.c[r] + call.column;
  KILN_UNROLL
  for (int32_t r = 0; r < kRows; ++r) {
    KILN_UNROLL
    for (int32_t j = 0; j < kVectors; ++j) wasm_v128_store(c[r] + 4 * j, sums[r][j]);
  }
}

template <int32_t kRows, int32_t kPanels>
[[gnu::noinline]] void run_strip(const StripCall& call) {
  constexpr int32_t kVectors = 2 * kPanels;
  const float* a_tile = call.a;
  const float* residual_tile = call.residual;
  float* c_tile = call.c;
  for (int32_t tile = call.num_tiles; tile > 0; --tile) {
    v128_t sums[kRows][kVectors];
    float* c = c_tile;
    if (call.bias != nullptr) {
      KILN_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) {
        const v128_t bias = wasm_v128_load(call.bias + j / 2 * call.bias_stride + j % 2 * 4);
        KILN_UNROLL
        for (int32_t r = 0; r < kRows; ++r) sums[r][j] = bias;
      }
    } else {
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) {
        KILN_UNROLL
        for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = wasm_v128_load(c + 4 * j);
        c += call.c_stride;
      }
    }
    const float* a[kRows];
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      a[r] = a_tile;
      a_tile += call.a_stride;
    }
    const float* b0 = call.b;
    const float* b1 = call.b + call.panel_stride;
    KILN_NO_UNROLL
    for (int32_t k = call.k; k > 0; --k) {
      v128_t b[kVectors];
      b[0] = wasm_v128_load(b0);
      b[1] = wasm_v128_load(b0 + 4);
      b0 += kPanelColumns;
      if constexpr (kPanels == 2) {
        b[2] = wasm_v128_load(b1);
        b[3] = wasm_v128_load(b1 + 4);
        b1 += kPanelColumns;
      }
      add_step<kRows, kVectors>(a, b, sums);
    }
    if (call.ends) {
      if (call.residual != nullptr) {
        KILN_UNROLL
        for (int32_t r = 0; r < kRows; ++r) {
          KILN_UNROLL
          for (int32_t j = 0; j < kVectors; ++j) {
            sums[r][j] = wasm_f32x4_add(sums[r][j], wasm_v128_load(residual_tile + 4 * j));
          }
          residual_tile += call.residual_stride;
        }
      }
      const v128_t low = wasm_f32x4_splat(call.low);
      const v128_t high = wasm_f32x4_splat(call.high);
      KILN_UNROLL
      for (int32_t r = 0; r < kRows; ++r) {
        KILN_UNROLL
        for (int32_t j = 0; j < kVectors; ++j) sums[r][j] = clip_f32x4(sums[r][j], low, high);
      }
    }
    const int64_t c_stride = call.c_stride;
    KILN_UNROLL
    for (int32_t r = 0; r < kRows; ++r) {
      KILN_UNROLL
      for (int32_t j = 0; j < kVectors; ++j) wasm_v128_store(c_tile + 4 * j, sums[r][j]);
      c_tile += c_stride;
    }
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
