// The innermost loop of cpu/gemm.h: a register tile of C, and the table of its variants.
//
// Engines differ by a factor of two on one and the same kernel: the runtime may time the candidates and take the
// fastest (select_tile_kernel). All of them sum in the order of k, so the choice never changes a bit.
#pragma once

#include <cstdint>
#include <span>

namespace kiln {

constexpr int32_t kPanelColumns = 8;
constexpr int32_t kMaxTileRows = 6;
constexpr int32_t kFewRows = 4;  // of the variants for what is left of a block

// A stretch of k in which every row of a tile of A is contiguous.
struct RowSegment {
  const float* rows[kMaxTileRows];
  int32_t length;
};
constexpr int32_t kSegmentBytes = 56;  // of scratch, whatever a pointer's size: bundles do not depend on it
static_assert(sizeof(RowSegment) <= kSegmentBytes);

// c[r][column + j] = (bias[j] or c[r][column + j]) + sum over k of a[r][k] * b[k][j], then, if `ends`,
// min(max(that + residual[r][column + j], low), high).
struct TileCall {
  const RowSegment* segments;
  int32_t num_segments;
  const float* b;        // (k, 8) of the first panel
  int32_t panel_stride;  // floats to the same place of the next one
  const float* bias;     // 8 values a panel, or null: start from what c holds
  int32_t bias_stride;
  float* const* c;               // a pointer a row
  const float* const* residual;  // the same, or null
  int64_t column;
  bool ends;
  float low, high;
};

using TileFn = void (*)(const TileCall&);

// The same for tiles one below the other, whose rows are all the same distance apart: no pointers to find, one call.
struct StripCall {
  int32_t num_tiles;
  int32_t k;
  const float* a;
  int64_t a_stride;  // floats from row to row, as below
  const float* b;
  int32_t panel_stride;
  const float* bias;
  int32_t bias_stride;
  float* c;
  int64_t c_stride;
  const float* residual;  // or null
  int64_t residual_stride;
  bool ends;
  float low, high;
};

using StripFn = void (*)(const StripCall&);

struct TileFns {
  TileFn tile;
  StripFn strip;
};

// A variant: tiles of `rows` by 8 * `panels` columns.
struct TileKernel {
  const char* name;  // "6x8": rows by columns
  int32_t rows;
  int32_t panels;
  TileFns full;
  TileFns narrow;           // one panel
  TileFns few_rows;         // kFewRows rows
  TileFns few_rows_narrow;  // kFewRows rows, one panel
};

// The candidates; the first is the default of this build's instructions.
std::span<const TileKernel> tile_kernels();
// The one in use.
const TileKernel& tile_kernel();
// `index` into tile_kernels(). Not while a product runs.
void select_tile_kernel(int32_t index);
int32_t selected_tile_kernel();

// How rows are made of tiles: `full` ones of the larger kernel, `few` of the smaller (7 rows behind full tiles of 6 are
// 4 + 3, which wastes less than 6 + 4), and `left` (0 to 5) rows behind them that fill no tile.
struct RowCut {
  int32_t full, few, left;
};
inline RowCut cut_rows(const TileKernel& kernel, int32_t rows) {
  RowCut cut = {rows / kernel.rows, 0, rows % kernel.rows};
  if (kernel.rows == kFewRows) return cut;
  if (cut.full > 0 && (cut.left == 1 || cut.left == 2)) {
    --cut.full;
    cut.left += kernel.rows;
  }
  if (cut.left % kFewRows == 0 || cut.left > kernel.rows) {
    cut.few = cut.left / kFewRows;
    cut.left %= kFewRows;
  }
  return cut;
}

// Runs a candidate `num_calls` times on numbers of its own, so that a caller with a clock can time it.
// Multiply-adds done.
int64_t try_tile_kernel(int32_t index, int32_t num_calls);

}  // namespace kiln
