#include "cpu/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/activation_f32.h"

namespace kiln {
namespace {

constexpr int32_t kMaxDepth = 384;       // of one block: 12 KB of a panel and the rows of a tile share the L1 cache
constexpr int32_t kMaxRowDepth = 4096;   // the same for a single row
constexpr int32_t kBlockFloats = 24576;  // of A: 96 KB of the L2 cache
constexpr int32_t kMaxBlockRows = 256;
constexpr int32_t kRowMultiple = 4;   // of a block: register tiles of 4 and 6 rows make any such number
constexpr int32_t kWantedTiles = 16;  // parallel tiles that a small product is cut into
constexpr int32_t kFewestRows = 24;   // of such a tile
constexpr int32_t kMinColumns = 32;   // but never narrower
constexpr int32_t kMaxSlots = 8;      // tiles that may run at once, each with scratch of its own

int32_t divide_up(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }
int32_t round_up(int64_t a, int32_t b) { return divide_up(a, b) * b; }

// Where the rows of a tile lie, apart from A.
struct TileRows {
  int32_t first, count;
  int32_t num_segments;
  float* c[kMaxTileRows];
  const float* residual[kMaxTileRows];
};
constexpr int32_t kTileBytes = 128;  // of scratch, whatever a pointer's size
static_assert(sizeof(TileRows) <= kTileBytes);

// The scratch of one thread: copied rows, then tiles, then their segments.
struct SlotLayout {
  int32_t segments = 0;  // of a tile in one block of k, at most
  size_t copy_bytes = 0;
  size_t tiles_bytes = 0;
  size_t bytes = 0;

  SlotLayout() = default;
  SlotLayout(int32_t rows, int32_t depth, const RowForm& form) {
    segments = form.is_copied ? 1 : std::min(form.num_segments, depth / std::max(1, form.min_length) + 2);
    const auto tiles = static_cast<size_t>(divide_up(rows, kFewRows));
    if (form.is_copied) copy_bytes = tiles * kMaxTileRows * static_cast<size_t>(depth) * sizeof(float);
    tiles_bytes = tiles * kTileBytes;
    bytes = (copy_bytes + tiles_bytes + tiles * static_cast<size_t>(segments) * kSegmentBytes + 63) / 64 * 64;
  }
};

struct Blocking {
  int32_t depth;  // of k
  int32_t rows;
  int32_t columns;  // multiple of kPanelColumns
  int32_t num_row_blocks, num_column_blocks;
  int64_t num_tiles;
  int32_t num_slots;
  SlotLayout slot;
};

int32_t choose_depth(int32_t m, int32_t k) {
  const int32_t max_depth = m == 1 ? kMaxRowDepth : kMaxDepth;
  return std::max(4, round_up(divide_up(k, std::max(1, divide_up(k, max_depth))), 4));
}

int32_t most_rows(int32_t depth) {
  return std::max(1, std::min(kMaxBlockRows, kBlockFloats / depth) / kRowMultiple) * kRowMultiple;
}

Blocking choose_blocking(int32_t num_groups, int32_t m, int32_t n, int32_t k, const RowForm& form) {
  Blocking b;
  b.depth = choose_depth(m, k);
  // Blocks of nearly equal height.
  int32_t num_blocks = std::max(1, divide_up(m, most_rows(b.depth)));
  if (m >= kWantedTiles * kFewestRows) num_blocks = std::max(num_blocks, kWantedTiles);
  b.rows = round_up(divide_up(m, num_blocks), kRowMultiple);
  b.rows = std::clamp(b.rows, 1, std::max(m, 1));
  b.num_row_blocks = divide_up(m, b.rows);
  b.columns = std::max(kPanelColumns, round_up(n, kPanelColumns));
  const int64_t tiles = static_cast<int64_t>(b.num_row_blocks) * num_groups;
  if (tiles > 0 && tiles < kWantedTiles && n > kMinColumns) {
    const int32_t parts = std::min(divide_up(kWantedTiles, tiles), n / kMinColumns);
    b.columns = round_up(divide_up(n, parts), 2 * kPanelColumns);
  }
  b.num_column_blocks = divide_up(n, b.columns);
  b.num_tiles = tiles * b.num_column_blocks;
  b.num_slots = static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(b.num_tiles, 1), kMaxSlots));
  b.slot = SlotLayout(b.rows, b.depth, form);
  return b;
}

int64_t row_offset(const GemmRows& rows, int32_t row) {
  if (row < rows.width) return row * rows.x_stride;
  const int32_t y = row / rows.width;
  return row % rows.width * rows.x_stride + y % rows.height * rows.y_stride + y / rows.height * rows.i_stride;
}

// c[0..8) = bias or c, + sum_k a[k] * b[k][0..8) for a single row, in four partial sums by k modulo 4, so that
// additions need not wait for each other.
[[gnu::noinline]] void run_row(int32_t k, const float* a, const float* b, const float* bias, float* c) {
  v128_t s0 = wasm_v128_load(bias != nullptr ? bias : c);
  v128_t s1 = wasm_v128_load((bias != nullptr ? bias : c) + 4);
  v128_t t0, t1, u0, u1, v0, v1;
  t0 = t1 = u0 = u1 = v0 = v1 = wasm_f32x4_const_splat(0.0f);
  for (; k >= 4; k -= 4) {
    const v128_t a0 = wasm_v128_load32_splat(a);
    s0 = f32x4_madd(a0, wasm_v128_load(b), s0);
    s1 = f32x4_madd(a0, wasm_v128_load(b + 4), s1);
    const v128_t a1 = wasm_v128_load32_splat(a + 1);
    t0 = f32x4_madd(a1, wasm_v128_load(b + 8), t0);
    t1 = f32x4_madd(a1, wasm_v128_load(b + 12), t1);
    const v128_t a2 = wasm_v128_load32_splat(a + 2);
    u0 = f32x4_madd(a2, wasm_v128_load(b + 16), u0);
    u1 = f32x4_madd(a2, wasm_v128_load(b + 20), u1);
    const v128_t a3 = wasm_v128_load32_splat(a + 3);
    v0 = f32x4_madd(a3, wasm_v128_load(b + 24), v0);
    v1 = f32x4_madd(a3, wasm_v128_load(b + 28), v1);
    a += 4;
    b += 4 * kPanelColumns;
  }
  for (; k > 0; --k) {
    const v128_t a0 = wasm_v128_load32_splat(a++);
    s0 = f32x4_madd(a0, wasm_v128_load(b), s0);
    s1 = f32x4_madd(a0, wasm_v128_load(b + 4), s1);
    b += kPanelColumns;
  }
  wasm_v128_store(c, wasm_f32x4_add(wasm_f32x4_add(s0, t0), wasm_f32x4_add(u0, v0)));
  wasm_v128_store(c + 4, wasm_f32x4_add(wasm_f32x4_add(s1, t1), wasm_f32x4_add(u1, v1)));
}

void run_row_segments(const TileCall& call, float* c) {
  const float* b = call.b;
  const float* bias = call.bias;
  for (int32_t i = 0; i < call.num_segments; ++i) {
    run_row(call.segments[i].length, call.segments[i].rows[0], b, bias, c);
    b += int64_t{call.segments[i].length} * kPanelColumns;
    bias = nullptr;
  }
  if (!call.ends) return;
  for (int32_t i = 0; i < kPanelColumns; i += 4) {
    v128_t x = wasm_v128_load(c + i);
    if (call.residual != nullptr) x = wasm_f32x4_add(x, wasm_v128_load(call.residual[0] + call.column + i));
    wasm_v128_store(c + i, clip_f32x4(x, wasm_f32x4_splat(call.low), wasm_f32x4_splat(call.high)));
  }
}

struct BlockRange {
  int32_t group, row, num_rows, column, num_columns;
};

// The work of one parallel tile.
struct BlockRun {
  const Gemm& gemm;
  const TileKernel& kernel;
  BlockRange range;
  RowCut cut;
  bool in_strips;  // full and few tiles are
  TileRows* tiles;
  int32_t num_tiles = 0;
  RowSegment* segments;
  int32_t segments_of_tile;
  float* copy;
  bool is_slow = false;  // residual and activation follow in a pass of their own
  float low = -INFINITY, high = INFINITY;

  // Whether rows of A, C and residual lie at even distances, and all panels are whole.
  bool has_strips() const {
    const auto is_plain = [](const GemmRows& rows, int32_t end) { return end <= rows.width; };
    const int32_t end = range.row + range.num_rows;
    return gemm.locate_rows == locate_matrix_rows && !gemm.row_form.is_copied && gemm.m > 1 &&
           gemm.n % kPanelColumns == 0 && is_plain(gemm.c_rows, end) &&
           (gemm.residual == nullptr || is_plain(gemm.residual_rows, end));
  }

  // Cuts the rows, and places the tiles that no strip has; what is left takes the smaller kernel if that is enough.
  void place_tiles() {
    cut = cut_rows(kernel, range.num_rows);
    in_strips = has_strips();
    const int64_t column = static_cast<int64_t>(range.group) * gemm.n;
    const int32_t end_of_full = cut.full * kernel.rows;
    for (int32_t first = in_strips ? range.num_rows - cut.left : 0; first < range.num_rows; ++num_tiles) {
      TileRows& tile = tiles[num_tiles];
      tile.first = first;
      tile.count = first < end_of_full ? kernel.rows : first < range.num_rows - cut.left ? kFewRows : cut.left;
      for (int32_t r = 0; r < kMaxTileRows; ++r) {
        const int32_t row = range.row + first + std::min(r, tile.count - 1);
        tile.c[r] = gemm.c + row_offset(gemm.c_rows, row) + column;
        if (gemm.residual == nullptr) continue;
        tile.residual[r] = gemm.residual + row_offset(gemm.residual_rows, row) + column;
      }
      first += tile.count;
    }
  }

  void locate_rows(int32_t k_begin, int32_t k_end) {
    for (int32_t i = 0; i < num_tiles; ++i) {
      TileRows& tile = tiles[i];
      tile.num_segments = gemm.locate_rows(gemm.rows_context, range.group, range.row + tile.first, tile.count, k_begin,
                                           k_end, copy + int64_t{i} * kMaxTileRows * (k_end - k_begin),
                                           segments + int64_t{i} * segments_of_tile);
    }
  }

  // A panel of fewer than 8 columns, through buffers.
  void run_edge(TileCall& call, const TileRows& tile, int32_t columns, TileFn run) const {
    float c[kMaxTileRows][kPanelColumns] = {};
    float residual[kMaxTileRows][kPanelColumns] = {};
    float* c_rows[kMaxTileRows];
    const float* residual_rows[kMaxTileRows];
    const size_t bytes = static_cast<size_t>(columns) * sizeof(float);
    for (int32_t r = 0; r < kMaxTileRows; ++r) {
      c_rows[r] = c[r];
      residual_rows[r] = residual[r];
      if (call.bias == nullptr) std::memcpy(c[r], tile.c[r] + call.column, bytes);
      if (call.residual != nullptr) std::memcpy(residual[r], tile.residual[r] + call.column, bytes);
    }
    const int64_t column = call.column;
    call.c = c_rows;
    if (call.residual != nullptr) call.residual = residual_rows;
    call.column = 0;
    if (gemm.m == 1) {
      run_row_segments(call, c[0]);
    } else {
      run(call);
    }
    call.column = column;
    for (int32_t r = 0; r < tile.count; ++r) std::memcpy(tile.c[r] + column, c[r], bytes);
  }

  // The rows that make strips, of the panels that `call` is for.
  void run_strips(const TileCall& call, int32_t k, int32_t depth, int32_t count) const {
    const auto& matrix = *static_cast<const MatrixRows*>(gemm.rows_context);
    const int64_t column = int64_t{range.group} * gemm.n + call.column;
    StripCall strip;
    strip.k = depth;
    strip.a_stride = matrix.row_stride;
    strip.a = matrix.data + range.group * matrix.group_stride + range.row * matrix.row_stride + k;
    strip.b = call.b;
    strip.panel_stride = call.panel_stride;
    strip.bias = call.bias;
    strip.bias_stride = call.bias_stride;
    strip.c_stride = gemm.c_rows.x_stride;
    strip.c = gemm.c + range.row * strip.c_stride + column;
    strip.residual_stride = gemm.residual_rows.x_stride;
    strip.residual =
        call.ends && gemm.residual != nullptr ? gemm.residual + range.row * strip.residual_stride + column : nullptr;
    strip.ends = call.ends;
    strip.low = call.low;
    strip.high = call.high;
    strip.num_tiles = cut.full;
    (count > 1 ? kernel.full : kernel.narrow).strip(strip);
    if (cut.few == 0) return;
    const int32_t rows = cut.full * kernel.rows;
    strip.a += rows * strip.a_stride;
    strip.c += rows * strip.c_stride;
    if (strip.residual != nullptr) strip.residual += rows * strip.residual_stride;
    strip.num_tiles = cut.few;
    (count > 1 ? kernel.few_rows : kernel.few_rows_narrow).strip(strip);
  }

  // Panels [panel, panel + count) over all rows, [k, k_end) of k. packed: the first panel.
  void run_panels(int32_t panel, int32_t count, const float* packed, int32_t k, int32_t k_end) const {
    TileCall call;
    call.b = packed + kPanelColumns * (int64_t{k} + 1);
    call.panel_stride = call.bias_stride = kPanelColumns * (gemm.k + 1);
    call.bias = k == 0 && !gemm.accumulate ? packed : nullptr;
    call.column = int64_t{panel} * kPanelColumns;
    call.ends = k_end == gemm.k && !is_slow;
    call.low = low;
    call.high = high;
    const int32_t columns = gemm.n - panel * kPanelColumns;
    if (in_strips) run_strips(call, k, k_end - k, count);
    for (int32_t i = 0; i < num_tiles; ++i) {
      const TileRows& tile = tiles[i];
      call.segments = segments + int64_t{i} * segments_of_tile;
      call.num_segments = tile.num_segments;
      call.c = tile.c;
      call.residual = call.ends && gemm.residual != nullptr ? tile.residual : nullptr;
      const bool is_wide = count > 1;
      const TileFns& fns = tile.count > kFewRows ? (is_wide ? kernel.full : kernel.narrow)
                                                 : (is_wide ? kernel.few_rows : kernel.few_rows_narrow);
      if (columns < kPanelColumns) {
        run_edge(call, tile, columns, fns.tile);
      } else if (gemm.m == 1) {
        run_row_segments(call, tile.c[0] + call.column);
      } else {
        fns.tile(call);
      }
    }
  }

  // Residual and activation where the tiles could not do it.
  void finish_rows() const {
    const int32_t columns = std::min(range.num_columns, gemm.n - range.column);
    const int64_t column = int64_t{range.group} * gemm.n + range.column;
    // Rows that follow each other without a gap are one.
    if (gemm.c_rows.x_stride == columns && range.num_rows <= gemm.c_rows.width - range.row &&
        gemm.residual == nullptr) {
      activate_f32(gemm.activation, gemm.c + row_offset(gemm.c_rows, range.row) + column,
                   int64_t{range.num_rows} * columns);
      return;
    }
    for (int32_t row = range.row; row < range.row + range.num_rows; ++row) {
      float* c = gemm.c + row_offset(gemm.c_rows, row) + column;
      const float* residual =
          gemm.residual != nullptr ? gemm.residual + row_offset(gemm.residual_rows, row) + column : nullptr;
      if (residual != nullptr && !gemm.residual_after) add_f32(residual, columns, c);
      activate_f32(gemm.activation, c, columns);
      if (residual != nullptr && gemm.residual_after) add_f32(residual, columns, c);
    }
  }
};

void run_block(const Gemm& gemm, const Blocking& blocking, const BlockRange& range, char* slot) {
  const SlotLayout& layout = blocking.slot;
  auto* copy = reinterpret_cast<float*>(slot);
  auto* tiles = reinterpret_cast<TileRows*>(slot + layout.copy_bytes);
  auto* segments = reinterpret_cast<RowSegment*>(slot + layout.copy_bytes + layout.tiles_bytes);
  BlockRun run = {gemm, tile_kernel(), range, {}, false, tiles, 0, segments, layout.segments, copy};
  const auto kind = static_cast<ActivationKind>(gemm.activation.kind);
  if (kind == ActivationKind::kClip) {
    run.low = gemm.activation.a;
    run.high = gemm.activation.b;
  }
  run.is_slow = (kind != ActivationKind::kNone && kind != ActivationKind::kClip) ||
                (gemm.residual != nullptr && gemm.residual_after);
  run.place_tiles();

  const int32_t panel_floats = kPanelColumns * (gemm.k + 1);
  const float* group_b = gemm.b + range.group * int64_t{panel_floats} * num_panels(gemm.n);
  const int32_t end_panel = divide_up(range.column + range.num_columns, kPanelColumns);
  const int32_t full_panels = std::min(end_panel, gemm.n / kPanelColumns);
  int32_t k = 0;
  do {
    const int32_t k_end = std::min(gemm.k, k + blocking.depth);
    run.locate_rows(k, k_end);
    for (int32_t panel = range.column / kPanelColumns; panel < end_panel;) {
      const int32_t count = gemm.m > 1 && panel + run.kernel.panels <= full_panels ? run.kernel.panels : 1;
      run.run_panels(panel, count, group_b + int64_t{panel} * panel_floats, k, k_end);
      panel += count;
    }
    k = k_end;
  } while (k < gemm.k);
  if (run.is_slow) run.finish_rows();
}

}  // namespace

GemmRows make_plain_rows(int32_t m, int64_t stride) {
  GemmRows rows;
  rows.width = std::max(1, m);
  rows.x_stride = stride;
  return rows;
}

size_t gemm_slot_bytes(int32_t m, int32_t k, const RowForm& form) {
  // Of the most rows that fit, and of one row: a smaller m may cut its blocks otherwise.
  const int32_t depth = choose_depth(2, k);
  const SlotLayout many(std::min(m, most_rows(depth)), depth, form);
  return std::max(many.bytes, SlotLayout(1, choose_depth(1, k), form).bytes);
}

size_t gemm_scratch_bytes(int32_t num_groups, int32_t m, int32_t n, int32_t k, const RowForm& form) {
  const Blocking blocking = choose_blocking(num_groups, m, n, k, form);
  return blocking.slot.bytes * static_cast<size_t>(blocking.num_slots);
}

void run_gemm(const Gemm& gemm, const Parallel* parallel, void* scratch) {
  if (gemm.m <= 0 || gemm.n <= 0) return;
  const Blocking blocking = choose_blocking(gemm.num_groups, gemm.m, gemm.n, gemm.k, gemm.row_form);
  const auto run = [&](int tile, int slot) {
    BlockRange range;
    const int32_t row_block = tile % blocking.num_row_blocks;
    const int32_t rest = tile / blocking.num_row_blocks;
    const int32_t column_block = rest % blocking.num_column_blocks;
    range.group = rest / blocking.num_column_blocks;
    range.row = row_block * blocking.rows;
    range.num_rows = std::min(blocking.rows, gemm.m - range.row);
    range.column = column_block * blocking.columns;
    range.num_columns = std::min(blocking.columns, gemm.n - range.column);
    run_block(gemm, blocking, range, static_cast<char*>(scratch) + static_cast<size_t>(slot) * blocking.slot.bytes);
  };
  parallel_for_slots(parallel, static_cast<int>(blocking.num_tiles), blocking.num_slots, run);
}

}  // namespace kiln
