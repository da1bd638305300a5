#include "cpu/quant_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/simd.h"

namespace kiln {
namespace {

constexpr int32_t kRows = 4;              // of a register tile
constexpr int64_t kBlockBytes = 1 << 17;  // of widened rows: a part of the L2 cache
constexpr int32_t kMaxSlots = 8;
constexpr int32_t kPanelsOfTask = 16;  // of one task where rows alone do not make enough of them

inline const void* bytes_at(const void* base, int64_t bytes) {
  return base == nullptr ? nullptr : static_cast<const char*>(base) + bytes;
}

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
  const QuantRescale& rescale = g.rescale;
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
  const auto item = static_cast<int64_t>(rescaled_bytes(g.rescale));
  const BoundedRescale bounded(rescale);
  if (bounded.applies && count == kQuantColumns) {
    KILN_UNROLL
    for (int32_t r = 0; r < kCount; ++r) {
      uint8_t* y = static_cast<uint8_t*>(g.c) + (block.row + first + r) * g.c_stride + offset;
      bounded.store(sums[r][0], sums[r][1], rescale.multiplier + column, y);
    }
    return;
  }
  KILN_UNROLL
  for (int32_t r = 0; r < kCount; ++r) {
    const int64_t row = block.row + first + r;
    char* y = static_cast<char*>(g.c) + (row * g.c_stride + offset) * item;
    const void* residual = bytes_at(g.residual, row * g.residual_stride + offset);
    if (count == kQuantColumns)
      rescale_eight(rescale, sums[r][0], sums[r][1], column, residual, y);
    else
      rescale_few(rescale, sums[r][0], sums[r][1], column, count, residual, y);
  }
}

void run_block(const Block& block, int32_t panel_begin, int32_t panel_end) {
  for (int32_t panel = panel_begin; panel < panel_end; ++panel) {
    int32_t row = 0;
    for (; row + kRows <= block.num_rows; row += kRows) run_tile<kRows>(block, panel, row);
    for (; row < block.num_rows; ++row) run_tile<1>(block, panel, row);
  }
}

}  // namespace

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
