#include "cpu/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/activation_f32.h"

namespace kiln {
namespace {

constexpr int32_t kMaxDepth = 384;       // of one block: 12 KB of a panel and 6 KB of a tile share the L1 cache
constexpr int32_t kMaxRowDepth = 4096;   // the same for a single row
constexpr int32_t kBlockFloats = 24576;  // of packed A: 96 KB of the L2 cache
constexpr int32_t kMaxBlockRows = 256;
constexpr int32_t kWantedTiles = 8;   // parallel tiles that a small product is cut into
constexpr int32_t kMinColumns = 128;  // but never narrower: each tile packs A anew
constexpr int32_t kMaxSlots = 8;      // tiles that may run at once, each with scratch of its own

int32_t divide_up(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }
int32_t round_up(int64_t a, int32_t b) { return divide_up(a, b) * b; }

struct Blocking {
  int32_t depth;    // of k
  int32_t rows;     // multiple of kTileRows
  int32_t columns;  // multiple of kPanelColumns
  int32_t num_row_blocks, num_column_blocks;
  int64_t num_tiles;
  int32_t num_slots;
  size_t slot_bytes;
};

Blocking choose_blocking(int32_t num_groups, int32_t m, int32_t n, int32_t k) {
  Blocking b;
  const int32_t max_depth = m == 1 ? kMaxRowDepth : kMaxDepth;
  b.depth = std::max(4, round_up(divide_up(k, std::max(1, divide_up(k, max_depth))), 4));
  const int32_t fitting = std::min(kMaxBlockRows, kBlockFloats / b.depth / kTileRows * kTileRows);
  // Blocks of nearly equal height.
  b.rows = round_up(divide_up(m, std::max(1, divide_up(m, fitting))), kTileRows);
  b.rows = std::max(b.rows, kTileRows);
  b.num_row_blocks = divide_up(m, b.rows);
  b.columns = std::max(kPanelColumns, round_up(n, kPanelColumns));
  const int64_t tiles = static_cast<int64_t>(b.num_row_blocks) * num_groups;
  if (tiles > 0 && tiles < kWantedTiles && n > kMinColumns) {
    const int32_t parts = std::min(divide_up(kWantedTiles, tiles), n / kMinColumns);
    b.columns = round_up(divide_up(n, parts), kPanelColumns);
  }
  b.num_column_blocks = divide_up(n, b.columns);
  b.num_tiles = tiles * b.num_column_blocks;
  b.num_slots = static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(b.num_tiles, 1), kMaxSlots));
  const size_t bytes =
      static_cast<size_t>(b.rows) * (static_cast<size_t>(b.depth) * sizeof(float) + 2 * sizeof(int64_t));
  b.slot_bytes = (bytes + 63) / 64 * 64;
  return b;
}

int64_t row_offset(const GemmRows& rows, int32_t row) {
  const int32_t y = row / rows.width;
  return row % rows.width * rows.x_stride + y % rows.height * rows.y_stride + y / rows.height * rows.i_stride;
}

// What the last block of k does to a tile.
struct TileEnd {
  const float* residual[kTileRows];  // null at [0] if there is none
  bool residual_after;
  bool is_slow;     // the activation is not a clip
  float low, high;  // of the clip; infinite without one
  const Activation* activation;
};

// c[r][0..8) = bias or c, + sum_k a[k][r] * b[k][0..8); then `end`, if not null.
[[gnu::noinline]] void run_tile(int32_t k, const float* a, const float* b, const float* bias, float* const c[kTileRows],
                                const TileEnd* end) {
  float* const c0 = c[0];
  float* const c1 = c[1];
  float* const c2 = c[2];
  float* const c3 = c[3];
  v128_t s00, s01, s10, s11, s20, s21, s30, s31;
  if (bias != nullptr) {
    s00 = s10 = s20 = s30 = wasm_v128_load(bias);
    s01 = s11 = s21 = s31 = wasm_v128_load(bias + 4);
  } else {
    s00 = wasm_v128_load(c0);
    s01 = wasm_v128_load(c0 + 4);
    s10 = wasm_v128_load(c1);
    s11 = wasm_v128_load(c1 + 4);
    s20 = wasm_v128_load(c2);
    s21 = wasm_v128_load(c2 + 4);
    s30 = wasm_v128_load(c3);
    s31 = wasm_v128_load(c3 + 4);
  }
  KILN_NO_UNROLL
  for (; k > 0; --k) {
    const v128_t b0 = wasm_v128_load(b);
    const v128_t b1 = wasm_v128_load(b + 4);
    b += kPanelColumns;
    const v128_t a0 = wasm_v128_load32_splat(a);
    s00 = f32x4_madd(a0, b0, s00);
    s01 = f32x4_madd(a0, b1, s01);
    const v128_t a1 = wasm_v128_load32_splat(a + 1);
    s10 = f32x4_madd(a1, b0, s10);
    s11 = f32x4_madd(a1, b1, s11);
    const v128_t a2 = wasm_v128_load32_splat(a + 2);
    s20 = f32x4_madd(a2, b0, s20);
    s21 = f32x4_madd(a2, b1, s21);
    const v128_t a3 = wasm_v128_load32_splat(a + 3);
    s30 = f32x4_madd(a3, b0, s30);
    s31 = f32x4_madd(a3, b1, s31);
    a += kTileRows;
  }
  if (end != nullptr && !end->is_slow) {
    const float* const* r = end->residual;
    if (r[0] != nullptr && !end->residual_after) {
      s00 = wasm_f32x4_add(s00, wasm_v128_load(r[0]));
      s01 = wasm_f32x4_add(s01, wasm_v128_load(r[0] + 4));
      s10 = wasm_f32x4_add(s10, wasm_v128_load(r[1]));
      s11 = wasm_f32x4_add(s11, wasm_v128_load(r[1] + 4));
      s20 = wasm_f32x4_add(s20, wasm_v128_load(r[2]));
      s21 = wasm_f32x4_add(s21, wasm_v128_load(r[2] + 4));
      s30 = wasm_f32x4_add(s30, wasm_v128_load(r[3]));
      s31 = wasm_f32x4_add(s31, wasm_v128_load(r[3] + 4));
    }
    const v128_t low = wasm_f32x4_splat(end->low);
    const v128_t high = wasm_f32x4_splat(end->high);
    s00 = clip_f32x4(s00, low, high);
    s01 = clip_f32x4(s01, low, high);
    s10 = clip_f32x4(s10, low, high);
    s11 = clip_f32x4(s11, low, high);
    s20 = clip_f32x4(s20, low, high);
    s21 = clip_f32x4(s21, low, high);
    s30 = clip_f32x4(s30, low, high);
    s31 = clip_f32x4(s31, low, high);
  }
  wasm_v128_store(c0, s00);
  wasm_v128_store(c0 + 4, s01);
  wasm_v128_store(c1, s10);
  wasm_v128_store(c1 + 4, s11);
  wasm_v128_store(c2, s20);
  wasm_v128_store(c2 + 4, s21);
  wasm_v128_store(c3, s30);
  wasm_v128_store(c3 + 4, s31);
}

// The same for a single row, in four partial sums by k modulo 4, so that additions need not wait for each
// other.
[[gnu::noinline]] void run_row(int32_t k, const float* a, const float* b, const float* bias, float* c) {
  v128_t s0 = wasm_v128_load(bias != nullptr ? bias : c);
  v128_t s1 = wasm_v128_load((bias != nullptr ? bias : c) + 4);
  v128_t t0, t1, u0, u1, v0, v1;
  t0 = t1 = u0 = u1 = v0 = v1 = wasm_f32x4_const_splat(0.0f);
  for (; k >= 4; k -= 4) {
    const v128_t a0 = wasm_v128_load32_splat(a);
    s0 = f32x4_madd(a0, wasm_v128_load(b), s0);
    s1 = f32x4_madd(a0, wasm_v128_load(b + 4), s1);
    const v128_t a1 = wasm_v128_load32_splat(a + 4);
    t0 = f32x4_madd(a1, wasm_v128_load(b + 8), t0);
    t1 = f32x4_madd(a1, wasm_v128_load(b + 12), t1);
    const v128_t a2 = wasm_v128_load32_splat(a + 8);
    u0 = f32x4_madd(a2, wasm_v128_load(b + 16), u0);
    u1 = f32x4_madd(a2, wasm_v128_load(b + 20), u1);
    const v128_t a3 = wasm_v128_load32_splat(a + 12);
    v0 = f32x4_madd(a3, wasm_v128_load(b + 24), v0);
    v1 = f32x4_madd(a3, wasm_v128_load(b + 28), v1);
    a += 4 * kTileRows;
    b += 4 * kPanelColumns;
  }
  for (; k > 0; --k) {
    const v128_t a0 = wasm_v128_load32_splat(a);
    s0 = f32x4_madd(a0, wasm_v128_load(b), s0);
    s1 = f32x4_madd(a0, wasm_v128_load(b + 4), s1);
    a += kTileRows;
    b += kPanelColumns;
  }
  wasm_v128_store(c, wasm_f32x4_add(wasm_f32x4_add(s0, t0), wasm_f32x4_add(u0, v0)));
  wasm_v128_store(c + 4, wasm_f32x4_add(wasm_f32x4_add(s1, t1), wasm_f32x4_add(u1, v1)));
}

// The end of a tile whose activation is not a clip, or whose residual comes after it, from C to C.
void finish_tile(const TileEnd& end, int32_t rows, float* const c[kTileRows]) {
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t i = 0; i < kPanelColumns; i += 4) {
      v128_t x = wasm_v128_load(c[r] + i);
      const bool has_residual = end.residual[0] != nullptr;
      const v128_t added = has_residual ? wasm_v128_load(end.residual[r] + i) : wasm_f32x4_const_splat(0.0f);
      if (has_residual && !end.residual_after) x = wasm_f32x4_add(x, added);
      x = activate_f32x4(*end.activation, x);
      if (has_residual && end.residual_after) x = wasm_f32x4_add(x, added);
      wasm_v128_store(c[r] + i, x);
    }
  }
}

struct BlockRange {
  int32_t group, row, num_rows, column, num_columns;
};

// One panel over the packed rows of one block of k.
void run_panel(const Gemm& gemm, const BlockRange& range, int32_t panel, int32_t depth, const float* packed_a,
               const int64_t* c_offsets, const int64_t* residual_offsets, const float* b, bool is_first, bool is_last) {
  const float* bias = is_first && !gemm.accumulate ? b : nullptr;
  const int32_t columns = std::min(kPanelColumns, gemm.n - panel * kPanelColumns);
  const int64_t column = static_cast<int64_t>(range.group) * gemm.n + panel * kPanelColumns;
  float edge_c[kTileRows][kPanelColumns] = {};
  float edge_residual[kTileRows][kPanelColumns] = {};
  TileEnd end;
  end.residual[0] = nullptr;
  end.residual_after = gemm.residual_after;
  end.activation = &gemm.activation;
  const auto kind = static_cast<ActivationKind>(gemm.activation.kind);
  const bool is_clip = kind == ActivationKind::kClip;
  end.low = is_clip ? gemm.activation.a : -INFINITY;
  end.high = is_clip ? gemm.activation.b : INFINITY;
  const bool is_row = gemm.m == 1;
  end.is_slow =
      is_row || (kind != ActivationKind::kNone && !is_clip) || (gemm.residual != nullptr && gemm.residual_after);

  for (int32_t first = 0; first < range.num_rows; first += kTileRows) {
    const int32_t rows = std::min(kTileRows, range.num_rows - first);
    float* c[kTileRows];
    float* target[kTileRows];
    for (int32_t r = 0; r < kTileRows; ++r) {
      const int32_t row = first + std::min(r, rows - 1);
      target[r] = c[r] = gemm.c + c_offsets[row] + column;
      if (gemm.residual != nullptr) end.residual[r] = gemm.residual + residual_offsets[row] + column;
    }
    if (columns < kPanelColumns) {
      const size_t bytes = static_cast<size_t>(columns) * sizeof(float);
      for (int32_t r = 0; r < kTileRows; ++r) {
        target[r] = edge_c[r];
        if (bias == nullptr) std::memcpy(edge_c[r], c[r], bytes);
        if (gemm.residual != nullptr) {
          std::memcpy(edge_residual[r], end.residual[r], bytes);
          end.residual[r] = edge_residual[r];
        }
      }
    }
    const float* a = packed_a + static_cast<int64_t>(first) * depth;
    if (is_row)
      run_row(depth, a, b + (bias != nullptr ? kPanelColumns : 0), bias, target[0]);
    else
      run_tile(depth, a, b + (bias != nullptr ? kPanelColumns : 0), bias, target, is_last ? &end : nullptr);
    if (is_last && end.is_slow) finish_tile(end, rows, target);
    if (columns < kPanelColumns) {
      for (int32_t r = 0; r < rows; ++r) std::memcpy(c[r], edge_c[r], static_cast<size_t>(columns) * sizeof(float));
    }
  }
}

void run_block(const Gemm& gemm, const Blocking& blocking, const BlockRange& range, char* slot) {
  auto* c_offsets = reinterpret_cast<int64_t*>(slot);
  int64_t* residual_offsets = c_offsets + blocking.rows;
  auto* packed_a = reinterpret_cast<float*>(residual_offsets + blocking.rows);
  for (int32_t r = 0; r < range.num_rows; ++r) {
    c_offsets[r] = row_offset(gemm.c_rows, range.row + r);
    residual_offsets[r] = gemm.residual != nullptr ? row_offset(gemm.residual_rows, range.row + r) : 0;
  }
  const int64_t panel_floats = kPanelColumns * (static_cast<int64_t>(gemm.k) + 1);
  const float* group_b = gemm.b + range.group * panel_floats * num_panels(gemm.n);
  const int32_t first_panel = range.column / kPanelColumns;
  const int32_t end_panel = divide_up(range.column + range.num_columns, kPanelColumns);
  int32_t k = 0;
  do {
    const int32_t k_end = std::min(gemm.k, k + blocking.depth);
    gemm.pack_rows(gemm.pack_context, range.group, range.row, range.num_rows, k, k_end, packed_a);
    for (int32_t panel = first_panel; panel < end_panel; ++panel) {
      const bool starts_at_bias = k == 0 && !gemm.accumulate;
      const float* b =
          group_b + panel * panel_floats + (starts_at_bias ? 0 : kPanelColumns * (static_cast<int64_t>(k) + 1));
      run_panel(gemm, range, panel, k_end - k, packed_a, c_offsets, residual_offsets, b, k == 0, k_end == gemm.k);
    }
    k = k_end;
  } while (k < gemm.k);
}

}  // namespace

// A loop of its own: run_tile is a sixth slower in V8 once it has a second caller.
void multiply_tile(int32_t k, const float* a, const float* b, float* c) {
  v128_t s00, s01, s10, s11, s20, s21, s30, s31;
  s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = wasm_f32x4_const_splat(0.0f);
  KILN_NO_UNROLL
  for (; k > 0; --k) {
    const v128_t b0 = wasm_v128_load(b);
    const v128_t b1 = wasm_v128_load(b + 4);
    b += kPanelColumns;
    const v128_t a0 = wasm_v128_load32_splat(a);
    s00 = f32x4_madd(a0, b0, s00);
    s01 = f32x4_madd(a0, b1, s01);
    const v128_t a1 = wasm_v128_load32_splat(a + 1);
    s10 = f32x4_madd(a1, b0, s10);
    s11 = f32x4_madd(a1, b1, s11);
    const v128_t a2 = wasm_v128_load32_splat(a + 2);
    s20 = f32x4_madd(a2, b0, s20);
    s21 = f32x4_madd(a2, b1, s21);
    const v128_t a3 = wasm_v128_load32_splat(a + 3);
    s30 = f32x4_madd(a3, b0, s30);
    s31 = f32x4_madd(a3, b1, s31);
    a += kTileRows;
  }
  wasm_v128_store(c, s00);
  wasm_v128_store(c + 4, s01);
  wasm_v128_store(c + 8, s10);
  wasm_v128_store(c + 12, s11);
  wasm_v128_store(c + 16, s20);
  wasm_v128_store(c + 20, s21);
  wasm_v128_store(c + 24, s30);
  wasm_v128_store(c + 28, s31);
}

GemmRows make_plain_rows(int32_t m, int64_t stride) {
  GemmRows rows;
  rows.width = std::max(1, m);
  rows.x_stride = stride;
  return rows;
}

size_t gemm_scratch_bytes(int32_t num_groups, int32_t m, int32_t n, int32_t k) {
  const Blocking blocking = choose_blocking(num_groups, m, n, k);
  return blocking.slot_bytes * static_cast<size_t>(blocking.num_slots);
}

void run_gemm(const Gemm& gemm, const Parallel* parallel, void* scratch) {
  if (gemm.m <= 0 || gemm.n <= 0) return;
  const Blocking blocking = choose_blocking(gemm.num_groups, gemm.m, gemm.n, gemm.k);
  const auto run = [&](int64_t tile, int32_t slot) {
    BlockRange range;
    const auto row_block = static_cast<int32_t>(tile % blocking.num_row_blocks);
    const int64_t rest = tile / blocking.num_row_blocks;
    const auto column_block = static_cast<int32_t>(rest % blocking.num_column_blocks);
    range.group = static_cast<int32_t>(rest / blocking.num_column_blocks);
    range.row = row_block * blocking.rows;
    range.num_rows = std::min(blocking.rows, gemm.m - range.row);
    range.column = column_block * blocking.columns;
    range.num_columns = std::min(blocking.columns, gemm.n - range.column);
    run_block(gemm, blocking, range, static_cast<char*>(scratch) + static_cast<size_t>(slot) * blocking.slot_bytes);
  };
  if (parallel->num_threads <= blocking.num_slots && blocking.num_tiles <= INT32_MAX) {
    parallel_for(parallel, static_cast<int>(blocking.num_tiles), [&](int tile, int thread) { run(tile, thread); });
    return;
  }
  parallel_for(parallel, blocking.num_slots, [&](int slot, int) {
    for (int64_t tile = slot; tile < blocking.num_tiles; tile += blocking.num_slots) run(tile, slot);
  });
}

int32_t num_panels(int32_t n) { return divide_up(n, kPanelColumns); }

int64_t packed_b_floats(int64_t n, int64_t k) {
  int64_t floats = 0;
  if (__builtin_mul_overflow((n + kPanelColumns - 1) / kPanelColumns * kPanelColumns, k + 1, &floats)) return INT64_MAX;
  return floats;
}

void pack_b_panel(const SourceB& b, int32_t panel, float* packed) {
  float* out = packed + panel * kPanelColumns * (static_cast<int64_t>(b.k_outer) * b.k_inner + 1);
  const int32_t first = panel * kPanelColumns;
  const int32_t columns = std::min(kPanelColumns, b.n - first);
  for (int32_t j = 0; j < kPanelColumns; ++j) {
    out[j] = b.bias != nullptr && j < columns ? b.bias[(first + j) * b.bias_stride] * b.bias_scale : 0.0f;
  }
  out += kPanelColumns;
  const float* data = b.data + first * b.n_stride;
  const bool is_wide = b.n_stride == 1 && columns == kPanelColumns && b.scale == 1;
  for (int32_t outer = 0; outer < b.k_outer; ++outer) {
    const float* row = data + outer * b.outer_stride;
    for (int32_t inner = 0; inner < b.k_inner; ++inner, row += b.inner_stride, out += kPanelColumns) {
      if (is_wide) {
        std::memcpy(out, row, kPanelColumns * sizeof(float));
        continue;
      }
      for (int32_t j = 0; j < kPanelColumns; ++j) out[j] = j < columns ? row[j * b.n_stride] * b.scale : 0.0f;
    }
  }
}

void pack_b(const SourceB& b, const Parallel* parallel, float* packed) {
  parallel_for(parallel, num_panels(b.n), [&](int panel, int) { pack_b_panel(b, panel, packed); });
}

void pack_four_rows(const float* const rows[kTileRows], int32_t count, float* out) {
  const float* r0 = rows[0];
  const float* r1 = rows[1];
  const float* r2 = rows[2];
  const float* r3 = rows[3];
  int32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const v128_t x0 = wasm_v128_load(r0 + i);
    const v128_t x1 = wasm_v128_load(r1 + i);
    const v128_t x2 = wasm_v128_load(r2 + i);
    const v128_t x3 = wasm_v128_load(r3 + i);
    const v128_t low01 = wasm_i32x4_shuffle(x0, x1, 0, 4, 1, 5);
    const v128_t low23 = wasm_i32x4_shuffle(x2, x3, 0, 4, 1, 5);
    const v128_t high01 = wasm_i32x4_shuffle(x0, x1, 2, 6, 3, 7);
    const v128_t high23 = wasm_i32x4_shuffle(x2, x3, 2, 6, 3, 7);
    wasm_v128_store(out, wasm_i64x2_shuffle(low01, low23, 0, 2));
    wasm_v128_store(out + 4, wasm_i64x2_shuffle(low01, low23, 1, 3));
    wasm_v128_store(out + 8, wasm_i64x2_shuffle(high01, high23, 0, 2));
    wasm_v128_store(out + 12, wasm_i64x2_shuffle(high01, high23, 1, 3));
    out += 16;
  }
  for (; i < count; ++i, out += kTileRows) {
    out[0] = r0[i];
    out[1] = r1[i];
    out[2] = r2[i];
    out[3] = r3[i];
  }
}

void pack_matrix_rows(const void* matrix_rows, int32_t, int32_t row, int32_t num_rows, int32_t k_begin, int32_t k_end,
                      float* out) {
  const auto& matrix = *static_cast<const MatrixRows*>(matrix_rows);
  const int32_t depth = k_end - k_begin;
  for (int32_t first = 0; first < num_rows; first += kTileRows, out += static_cast<int64_t>(depth) * kTileRows) {
    const int32_t last = std::min(num_rows - first, kTileRows) - 1;
    const float* rows[kTileRows];
    for (int32_t r = 0; r < kTileRows; ++r) {
      rows[r] = matrix.data + (row + first + std::min(r, last)) * matrix.row_stride + k_begin * matrix.k_stride;
    }
    if (matrix.k_stride == 1) {
      pack_four_rows(rows, depth, out);
      continue;
    }
    float* to = out;
    for (int32_t k = 0; k < depth; ++k, to += kTileRows) {
      const int64_t offset = k * matrix.k_stride;
      for (int32_t r = 0; r < kTileRows; ++r) to[r] = rows[r][offset];
    }
  }
}

namespace {

// Where the window of each row of a tile begins.
struct TileOrigins {
  const float* image[kTileRows];
  int32_t top[kTileRows], left[kTileRows];
};

TileOrigins locate_tile(const WindowRows& w, int32_t row, int32_t num_rows) {
  TileOrigins origins;
  for (int32_t r = 0; r < kTileRows; ++r) {
    const int32_t pixel = row + std::min(r, num_rows - 1);
    const int32_t line = pixel / w.out_width;
    origins.image[r] = w.x + line / w.out_height * w.image_stride;
    origins.top[r] = line % w.out_height * w.stride_h - w.pad_top;
    origins.left[r] = pixel % w.out_width * w.stride_w - w.pad_left;
  }
  return origins;
}

}  // namespace

void pack_window_rows(const void* window_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                      int32_t k_end, float* out) {
  const auto& w = *static_cast<const WindowRows*>(window_rows);
  const int32_t channels = w.group_channels;
  const int32_t kernel_row = w.kernel_w * channels;
  const int64_t first_channel = static_cast<int64_t>(group) * channels;
  // Pixels of a kernel row are one run in memory: packed at a time where no row of the tile meets the border.
  const bool is_run = w.pixel_stride == channels && w.dilation_w == 1;
  for (int32_t first = 0; first < num_rows; first += kTileRows) {
    const TileOrigins at = locate_tile(w, row + first, num_rows - first);
    bool take_run = is_run;
    for (int32_t left : at.left) take_run = take_run && left >= 0 && left + w.kernel_w <= w.width;
    for (int32_t k = k_begin; k < k_end;) {
      const int32_t kh = k / kernel_row;
      const int32_t in_row = k - kh * kernel_row;
      const int32_t kw = in_row / channels;
      const int32_t c = in_row - kw * channels;
      const int32_t count = std::min(k_end - k, take_run ? kernel_row - in_row : channels - c);
      const float* rows[kTileRows];
      for (int32_t r = 0; r < kTileRows; ++r) {
        const int32_t y = at.top[r] + kh * w.dilation_h;
        const int32_t x = at.left[r] + kw * w.dilation_w;
        const bool is_padding = y < 0 || y >= w.height || x < 0 || x >= w.width;
        const int64_t pixel = static_cast<int64_t>(y) * w.width + x;
        rows[r] = is_padding ? w.zeros : at.image[r] + pixel * w.pixel_stride + first_channel + c;
      }
      pack_four_rows(rows, count, out);
      out += static_cast<int64_t>(count) * kTileRows;
      k += count;
    }
  }
}

void pack_planar_window_rows(const void* window_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                             int32_t k_end, float* out) {
  const auto& w = *static_cast<const WindowRows*>(window_rows);
  const int32_t channels = w.group_channels;
  const int64_t plane = static_cast<int64_t>(w.height) * w.width;
  for (int32_t first = 0; first < num_rows; first += kTileRows) {
    const TileOrigins at = locate_tile(w, row + first, num_rows - first);
    for (int32_t k = k_begin; k < k_end;) {
      const int32_t tap = k / channels;
      const int32_t c = k - tap * channels;
      const int32_t count = std::min(k_end - k, channels - c);
      const int32_t kh = tap / w.kernel_w;
      const int32_t kw = tap - kh * w.kernel_w;
      for (int32_t r = 0; r < kTileRows; ++r) {
        const int32_t y = at.top[r] + kh * w.dilation_h;
        const int32_t x = at.left[r] + kw * w.dilation_w;
        const bool is_padding = y < 0 || y >= w.height || x < 0 || x >= w.width;
        const int64_t channel = static_cast<int64_t>(group) * channels + c;
        const float* from = at.image[r] + (is_padding ? 0 : channel * plane + static_cast<int64_t>(y) * w.width + x);
        for (int32_t i = 0; i < count; ++i) out[i * kTileRows + r] = is_padding ? 0.0f : from[i * plane];
      }
      out += static_cast<int64_t>(count) * kTileRows;
      k += count;
    }
  }
}

}  // namespace kiln
