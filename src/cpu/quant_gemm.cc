#include "cpu/quant_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/exact_activation.h"
#include "cpu/simd.h"

namespace kiln {
namespace {

constexpr int32_t kRows = 4;              // of a register tile
constexpr int64_t kBlockBytes = 1 << 17;  // of widened rows: a part of the L2 cache
constexpr int32_t kMaxSlots = 8;
constexpr int32_t kPanelsOfTask = 16;  // of one task where rows alone do not make enough of them

// --- outputs ---

inline v128_t clamp_f32x4(v128_t x, v128_t low, v128_t high) {
  return wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, x));  // NaN gives a bound
}

inline float clamp_f32(float x, float low, float high) {
  const float raised = low < x ? x : low;
  return raised < high ? raised : high;
}

// Residuals less their zero as f32, times the multiplier.
inline void load_residual(const QuantRescale& r, const void* residual, v128_t added[2]) {
  const v128_t bytes = wasm_v128_load64_zero(residual);
  const v128_t wide =
      r.residual_dtype == DType::kI8 ? wasm_i16x8_extend_low_i8x16(bytes) : wasm_u16x8_extend_low_u8x16(bytes);
  const v128_t centred = wasm_i16x8_sub(wide, wasm_i16x8_splat(static_cast<int16_t>(r.residual_zero)));
  const v128_t scale = wasm_f32x4_splat(r.residual_multiplier);
  added[0] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(centred)), scale);
  added[1] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(centred)), scale);
}

// Eight outputs. The bounds lie within what the dtype holds (checked at load), so narrowing does not saturate.
inline void rescale_eight(const QuantRescale& r, v128_t sum0, v128_t sum1, int64_t column, const void* residual,
                          void* y) {
  const float* multiplier = r.multiplier + column;
  v128_t s[2] = {wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum0), wasm_v128_load(multiplier)),
                 wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum1), wasm_v128_load(multiplier + 4))};
  v128_t added[2];
  const bool has_residual = r.residual_dtype != DType::kInvalid;
  if (has_residual) load_residual(r, residual, added);
  if (has_residual && !r.residual_after) {
    s[0] = wasm_f32x4_add(s[0], added[0]);
    s[1] = wasm_f32x4_add(s[1], added[1]);
  }
  if (r.computes) {
    const v128_t same = wasm_f32x4_splat(r.gain_of_all);
    const v128_t gain0 = r.gain != nullptr ? wasm_v128_load(r.gain + column) : same;
    const v128_t gain1 = r.gain != nullptr ? wasm_v128_load(r.gain + column + 4) : same;
    s[0] = wasm_f32x4_mul(exact_activation(r.activation, s[0]), gain0);
    s[1] = wasm_f32x4_mul(exact_activation(r.activation, s[1]), gain1);
    if (has_residual && r.residual_after) {
      s[0] = wasm_f32x4_add(s[0], added[0]);
      s[1] = wasm_f32x4_add(s[1], added[1]);
    }
  }
  const v128_t low = wasm_f32x4_splat(r.low);
  const v128_t high = wasm_f32x4_splat(r.high);
  if (r.dtype == DType::kF32) {
    wasm_v128_store(y, clamp_f32x4(s[0], low, high));
    wasm_v128_store(static_cast<float*>(y) + 4, clamp_f32x4(s[1], low, high));
    return;
  }
  const v128_t q0 = wasm_i32x4_trunc_sat_f32x4(clamp_f32x4(wasm_f32x4_nearest(s[0]), low, high));
  const v128_t q1 = wasm_i32x4_trunc_sat_f32x4(clamp_f32x4(wasm_f32x4_nearest(s[1]), low, high));
  const v128_t wide = wasm_i16x8_add(wasm_i16x8_narrow_i32x4(q0, q1), wasm_i16x8_splat(static_cast<int16_t>(r.zero)));
  const v128_t bytes =
      r.dtype == DType::kI8 ? wasm_i8x16_narrow_i16x8(wide, wide) : wasm_u8x16_narrow_i16x8(wide, wide);
  wasm_v128_store64_lane(y, bytes, 0);
}

size_t item_bytes_of(const QuantRescale& r) { return r.dtype == DType::kF32 ? 4 : 1; }

inline const void* bytes_at(const void* base, int64_t bytes) {
  return base == nullptr ? nullptr : static_cast<const char*>(base) + bytes;
}

// The same for fewer than eight, by way of copies.
[[gnu::noinline]] void rescale_few(const QuantRescale& r, v128_t sum0, v128_t sum1, int64_t column, int32_t count,
                                   const void* residual, void* y) {
  alignas(16) char in[8] = {};
  alignas(16) char out[32];
  if (residual != nullptr) std::memcpy(in, residual, static_cast<size_t>(count));
  rescale_eight(r, sum0, sum1, column, in, out);
  std::memcpy(y, out, static_cast<size_t>(count) * item_bytes_of(r));
}

// --- sums ---

struct Tile {
  const int16_t* a;
  int32_t stride;
  int32_t pairs;
  const int8_t* b;
  const int32_t* bias;
};

template <int32_t kCount>
inline void sum_tile(const Tile& t, v128_t (&sums)[kCount][2]) {
  KILN_UNROLL
  for (int32_t r = 0; r < kCount; ++r) {
    sums[r][0] = wasm_v128_load(t.bias);
    sums[r][1] = wasm_v128_load(t.bias + 4);
  }
  const int16_t* rows[kCount];
  KILN_UNROLL
  for (int32_t r = 0; r < kCount; ++r) rows[r] = t.a + static_cast<int64_t>(r) * t.stride;
  const int8_t* b = t.b;
  KILN_NO_UNROLL
  for (int32_t i = 0; i < t.pairs; ++i, b += 2 * kQuantColumns) {
    const v128_t b0 = wasm_i16x8_load8x8(b);
    const v128_t b1 = wasm_i16x8_load8x8(b + kQuantColumns);
    KILN_UNROLL
    for (int32_t r = 0; r < kCount; ++r) {
      const v128_t pair = wasm_v128_load32_splat(rows[r] + 2 * i);
      sums[r][0] = wasm_i32x4_add(sums[r][0], wasm_i32x4_dot_i16x8(pair, b0));
      sums[r][1] = wasm_i32x4_add(sums[r][1], wasm_i32x4_dot_i16x8(pair, b1));
    }
  }
}

struct Block {
  const QuantGemm* gemm;
  const int16_t* a;
  int32_t stride;
  int32_t group, row, num_rows;
};

template <int32_t kCount>
void run_tile(const Block& block, int32_t panel, int32_t first) {
  const QuantGemm& g = *block.gemm;
  const int32_t panels = quant_panels(g.n);
  const int64_t column = (static_cast<int64_t>(block.group) * panels + panel) * kQuantColumns;
  Tile tile;
  tile.a = block.a + static_cast<int64_t>(first) * block.stride;
  tile.stride = block.stride;
  tile.pairs = block.stride / 2;
  tile.b = g.b + column * block.stride;
  tile.bias = g.bias + column;
  v128_t sums[kCount][2];
  sum_tile<kCount>(tile, sums);
  const int32_t in_row = panel * kQuantColumns;
  const int32_t count = std::min(kQuantColumns, g.n - in_row);
  const int64_t offset = static_cast<int64_t>(block.group) * g.n + in_row;
  const auto item = static_cast<int64_t>(item_bytes_of(g.rescale));
  KILN_UNROLL
  for (int32_t r = 0; r < kCount; ++r) {
    const int64_t row = block.row + first + r;
    char* y = static_cast<char*>(g.c) + (row * g.c_stride + offset) * item;
    const void* residual = bytes_at(g.residual, row * g.residual_stride + offset);
    if (count == kQuantColumns)
      rescale_eight(g.rescale, sums[r][0], sums[r][1], column, residual, y);
    else
      rescale_few(g.rescale, sums[r][0], sums[r][1], column, count, residual, y);
  }
}

void run_block(const Block& block, int32_t panel_begin, int32_t panel_end) {
  for (int32_t panel = panel_begin; panel < panel_end; ++panel) {
    int32_t row = 0;
    for (; row + kRows <= block.num_rows; row += kRows) run_tile<kRows>(block, panel, row);
    if (row + 2 <= block.num_rows) {
      run_tile<2>(block, panel, row);
      row += 2;
    }
    if (row < block.num_rows) run_tile<1>(block, panel, row);
  }
}

}  // namespace

void rescale_sum(const QuantRescale& r, int32_t sum, int32_t column, const void* residual, void* y) {
  const bool has_residual = r.residual_dtype != DType::kInvalid;
  float added = 0;
  if (has_residual) {
    const int32_t value = r.residual_dtype == DType::kI8 ? static_cast<const int8_t*>(residual)[0]
                                                         : static_cast<const uint8_t*>(residual)[0];
    added = static_cast<float>(value - r.residual_zero) * r.residual_multiplier;
  }
  float s = static_cast<float>(sum) * r.multiplier[column];
  if (has_residual && !r.residual_after) s = s + added;
  if (r.computes) {
    s = exact_activation(r.activation, s) * (r.gain != nullptr ? r.gain[column] : r.gain_of_all);
    if (has_residual && r.residual_after) s = s + added;
  }
  if (r.dtype == DType::kF32) {
    *static_cast<float*>(y) = clamp_f32(s, r.low, r.high);
    return;
  }
  const int32_t q = static_cast<int32_t>(clamp_f32(std::nearbyintf(s), r.low, r.high)) + r.zero;
  *static_cast<uint8_t*>(y) = static_cast<uint8_t>(q);
}

void rescale_sums(const QuantRescale& r, const int32_t* sums, int32_t column, int32_t count, const void* residual,
                  void* y) {
  const v128_t sum0 = wasm_v128_load(sums);
  const v128_t sum1 = wasm_v128_load(sums + 4);
  if (count == kQuantColumns)
    rescale_eight(r, sum0, sum1, column, residual, y);
  else
    rescale_few(r, sum0, sum1, column, count, residual, y);
}

int32_t quant_block_rows(int32_t m, int32_t k) {
  const int64_t bytes = quant_depth(k) * 2;
  const int64_t most = std::clamp<int64_t>(kBlockBytes / bytes / kRows * kRows, 3 * kRows, 128);
  return static_cast<int32_t>(std::min<int64_t>(most, m));
}

uint64_t quant_gemm_scratch_bytes(int32_t m, int32_t k) {
  const uint64_t block = static_cast<uint64_t>(quant_block_rows(m, k)) * static_cast<uint64_t>(quant_depth(k)) * 2;
  return (block + 63) / 64 * 64 * kMaxSlots;
}

void run_quant_gemm(const QuantGemm& g, const Parallel* parallel, void* scratch) {
  const auto stride = static_cast<int32_t>(quant_depth(g.k));
  const int32_t block_rows = quant_block_rows(g.m, g.k);
  const int32_t blocks = (g.m + block_rows - 1) / block_rows;
  const int32_t panels = quant_panels(g.n);
  // Threads share the panels of a block only where there are few blocks: each of them widens the block's rows.
  const bool shares = parallel->num_threads > 1 && int64_t{blocks} * g.num_groups < 2 * parallel->num_threads;
  const int32_t parts = shares ? (panels + kPanelsOfTask - 1) / kPanelsOfTask : 1;
  const int32_t panels_of_part = (panels + parts - 1) / parts;
  const size_t slot_bytes = static_cast<size_t>(quant_gemm_scratch_bytes(g.m, g.k) / kMaxSlots);
  parallel_for_slots(parallel, g.num_groups * blocks * parts, kMaxSlots, [&](int task, int slot) {
    Block block;
    block.gemm = &g;
    auto* rows = reinterpret_cast<int16_t*>(static_cast<char*>(scratch) + static_cast<size_t>(slot) * slot_bytes);
    block.a = rows;
    block.stride = stride;
    block.group = task / (blocks * parts);
    block.row = task / parts % blocks * block_rows;
    block.num_rows = std::min(block_rows, g.m - block.row);
    g.widen_rows(g.rows_context, block.group, block.row, block.num_rows, rows, stride);
    const int32_t begin = task % parts * panels_of_part;
    run_block(block, begin, std::min(panels, begin + panels_of_part));
  });
}

}  // namespace kiln
