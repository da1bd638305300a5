#include "ops/conv/winograd.h"

#include <cmath>
#include <cstring>

#include "cpu/activation_f32.h"
#include "ops/conv/geometry.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::conv {
namespace {

constexpr int32_t kIn = 6;  // inputs of a tile along an axis

v128_t times(v128_t x, float factor) { return wasm_f32x4_mul(x, wasm_f32x4_splat(factor)); }
v128_t add_times(v128_t sum, v128_t x, float factor) { return f32x4_madd(x, wasm_f32x4_splat(factor), sum); }

// B^T along one axis, in place; elements are `step` apart.
template <int step>
inline void transform_input(v128_t* d) {
  const v128_t d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  const v128_t a = add_times(d4, d2, -4.0f);
  const v128_t b = add_times(d3, d1, -4.0f);
  const v128_t c = wasm_f32x4_sub(d4, d2);
  const v128_t e = times(wasm_f32x4_sub(d3, d1), 2.0f);
  d[0] = add_times(add_times(d4, d0, 4.0f), d2, -5.0f);
  d[step] = wasm_f32x4_add(a, b);
  d[2 * step] = wasm_f32x4_sub(a, b);
  d[3 * step] = wasm_f32x4_add(c, e);
  d[4 * step] = wasm_f32x4_sub(c, e);
  d[5 * step] = add_times(add_times(d5, d1, 4.0f), d3, -5.0f);
}

// G along one axis: three weights to six.
inline void transform_weights(v128_t w0, v128_t w1, v128_t w2, v128_t* out, int step) {
  const v128_t outer = wasm_f32x4_add(w0, w2);
  const v128_t third = times(add_times(times(w0, 0.25f), w2, 1.0f), 1.0f / 6.0f);  // (w0 / 4 + w2) / 6
  const v128_t middle = times(w1, 1.0f / 12.0f);
  out[0] = times(w0, 0.25f);
  out[step] = times(wasm_f32x4_add(outer, w1), -1.0f / 6.0f);
  out[2 * step] = times(wasm_f32x4_sub(outer, w1), -1.0f / 6.0f);
  out[3 * step] = wasm_f32x4_add(third, middle);
  out[4 * step] = wasm_f32x4_sub(third, middle);
  out[5 * step] = w2;
}

// A^T along one axis: six products to four outputs.
inline void transform_output(const v128_t* m, int step, v128_t* out, int out_step) {
  const v128_t s1 = wasm_f32x4_add(m[step], m[2 * step]);
  const v128_t d1 = wasm_f32x4_sub(m[step], m[2 * step]);
  const v128_t s2 = wasm_f32x4_add(m[3 * step], m[4 * step]);
  const v128_t d2 = wasm_f32x4_sub(m[3 * step], m[4 * step]);
  out[0] = wasm_f32x4_add(wasm_f32x4_add(m[0], s1), s2);
  out[out_step] = add_times(d1, d2, 2.0f);
  out[2 * out_step] = add_times(s1, s2, 4.0f);
  out[3 * out_step] = wasm_f32x4_add(add_times(d1, d2, 8.0f), m[5 * step]);
}

struct Work {
  const KernelArgs* args;
  const ConvParams* params;
  Image x, y;
  WinogradBlocking blocking;
  int32_t tile_rows, tile_columns, num_tiles, num_panels;
  int64_t x_pixel, y_pixel, residual_pixel;  // floats from pixel to pixel
  bool is_slow;                              // the activation is no clip, or the residual comes after it
  float low, high;                           // of the clip; infinite without one
};

// Where a tile lies: its image and the first row and column of its outputs.
struct Tile {
  int32_t image, row, column;
};

Tile locate(const Work& work, int32_t tile) {
  const int32_t line = tile / work.tile_columns;
  return {line / work.tile_rows, line % work.tile_rows * kWinogradOut, tile % work.tile_columns * kWinogradOut};
}

// The 6 x 6 pixels that a tile reads; those outside the image are zero.
struct Patch {
  const float* rows[kIn];  // null outside
  int32_t first, end;      // columns inside
};

Patch locate_patch(const Work& work, int32_t tile) {
  const Tile at = locate(work, tile);
  const int32_t top = at.row - work.params->pad_begin[1];
  const int32_t left = at.column - work.params->pad_begin[2];
  const float* x = work.args->in[0].as<float>() + at.image * (work.x_pixel * work.x.size[1] * work.x.size[2]);
  Patch patch;
  for (int32_t i = 0; i < kIn; ++i) {
    const int32_t row = top + i;
    const bool inside = row >= 0 && row < work.x.size[1];
    patch.rows[i] = inside ? x + (int64_t{row} * work.x.size[2] + left) * work.x_pixel : nullptr;
  }
  patch.first = std::clamp(-left, 0, kIn);
  patch.end = std::clamp(work.x.size[2] - left, 0, kIn);
  return patch;
}

// Four channels of a patch, transformed: out[product].
inline void transform_patch(const Patch& patch, int64_t x_pixel, int32_t channel, v128_t out[kWinogradProducts]) {
  for (int32_t i = 0; i < kIn; ++i) {
    const float* row = patch.rows[i];
    v128_t* to = out + i * kIn;
    if (row == nullptr) {
      for (int32_t j = 0; j < kIn; ++j) to[j] = wasm_f32x4_const_splat(0.0f);
      continue;
    }
    for (int32_t j = 0; j < kIn; ++j) {
      const bool inside = j >= patch.first && j < patch.end;
      to[j] = inside ? wasm_v128_load(row + j * x_pixel + channel) : wasm_f32x4_const_splat(0.0f);
    }
    transform_input<1>(to);
  }
  for (int32_t j = 0; j < kIn; ++j) transform_input<kIn>(out + j);
}

// Tiles [first, first + count) to (product, rows, c): the rows of A of 36 products; those behind the tiles repeat the
// last.
void transform_block(const Work& work, int32_t first, int32_t count, int32_t rows, float* out) {
  const int32_t channels = work.x.c;
  const int64_t product_floats = int64_t{rows} * channels;
  for (int32_t t = 0; t < rows; ++t) {
    const Patch patch = locate_patch(work, first + std::min(t, count - 1));
    for (int32_t c = 0; c < channels; c += 4) {
      v128_t values[kWinogradProducts];
      transform_patch(patch, work.x_pixel, c, values);
      float* to = out + int64_t{t} * channels + c;
      for (int32_t m = 0; m < kWinogradProducts; ++m) wasm_v128_store(to + m * product_floats, values[m]);
    }
  }
}

v128_t load_some(const float* from, int32_t count) {
  if (count >= 4) return wasm_v128_load(from);
  float some[4] = {};
  std::memcpy(some, from, static_cast<size_t>(count) * sizeof(float));
  return wasm_v128_load(some);
}

void store_some(float* to, v128_t value, int32_t count) {
  if (count >= 4) {
    wasm_v128_store(to, value);
    return;
  }
  float some[4];
  wasm_v128_store(some, value);
  std::memcpy(to, some, static_cast<size_t>(count) * sizeof(float));
}

// Four channels of a tile: from its products, `stride` floats apart, to its pixels of y.
void finish_tile(const Work& work, const Tile& at, int32_t channel, v128_t bias, const float* products,
                 int64_t stride) {
  v128_t rows[kWinogradOut * kIn];  // 4 x 6
  for (int32_t j = 0; j < kIn; ++j) {
    v128_t column[kIn];
    for (int32_t i = 0; i < kIn; ++i) column[i] = wasm_v128_load(products + (i * kIn + j) * stride);
    transform_output(column, 1, rows + j, kIn);
  }
  const KernelArgs& args = *work.args;
  const int32_t count = work.y.c - channel;
  const int32_t num_rows = std::min(kWinogradOut, work.y.size[1] - at.row);
  const int32_t num_columns = std::min(kWinogradOut, work.y.size[2] - at.column);
  const bool adds = work.params->residual == static_cast<int32_t>(Residual::kBeforeActivation);
  const v128_t low = wasm_f32x4_splat(work.low);
  const v128_t high = wasm_f32x4_splat(work.high);
  for (int32_t i = 0; i < num_rows; ++i) {
    v128_t line[kWinogradOut];
    transform_output(rows + i * kIn, 1, line, 1);
    const int64_t pixel = (int64_t{at.image} * work.y.size[1] + at.row + i) * work.y.size[2] + at.column;
    float* to = args.out[0].as<float>() + pixel * work.y_pixel + channel;
    const float* residual = adds ? args.in[3].as<float>() + pixel * work.residual_pixel + channel : nullptr;
    for (int32_t j = 0; j < num_columns; ++j) {
      v128_t value = wasm_f32x4_add(line[j], bias);
      if (adds) value = wasm_f32x4_add(value, load_some(residual + j * work.residual_pixel, count));
      store_some(to + j * work.y_pixel, clip_f32x4(value, low, high), count);
    }
  }
}

// Activation and later residual of a tile's pixels, channels [first, first + count), where finish_tile could not do it.
void finish_pixels(const Work& work, const Tile& at, int32_t first, int32_t count) {
  const KernelArgs& args = *work.args;
  const bool adds = work.params->residual == static_cast<int32_t>(Residual::kAfterActivation);
  const int32_t num_rows = std::min(kWinogradOut, work.y.size[1] - at.row);
  const int32_t num_columns = std::min(kWinogradOut, work.y.size[2] - at.column);
  for (int32_t i = 0; i < num_rows; ++i) {
    const int64_t line = (int64_t{at.image} * work.y.size[1] + at.row + i) * work.y.size[2] + at.column;
    for (int64_t pixel = line; pixel < line + num_columns; ++pixel) {
      float* y = args.out[0].as<float>() + pixel * work.y_pixel + first;
      activate_f32(work.params->activation, y, count);
      if (adds) add_f32(args.in[3].as<float>() + pixel * work.residual_pixel + first, count, y);
    }
  }
}

// One product of a block: (count, channels) times `panels` panels from `b` on, to (count, 8 * panels); count is a
// multiple of kFewRows.
void multiply_block(const Work& work, int32_t count, int32_t panels, const float* a, const float* b, float* c) {
  static const float kZeros[2 * kPanelColumns] = {};
  const TileKernel& kernel = tile_kernel();
  const int32_t channels = work.x.c;
  const RowCut cut = cut_rows(kernel, count);
  StripCall strip = {};
  strip.k = channels;
  strip.a_stride = channels;
  strip.panel_stride = kWinogradProducts * channels * kPanelColumns;
  strip.bias = kZeros;
  strip.c_stride = int64_t{panels} * kPanelColumns;
  const int32_t few_at = cut.full * kernel.rows;
  for (int32_t panel = 0; panel < panels;) {
    const bool is_wide = kernel.panels > 1 && panel + kernel.panels <= panels;
    strip.b = b + int64_t{panel} * strip.panel_stride;
    strip.a = a;
    strip.c = c + int64_t{panel} * kPanelColumns;
    strip.num_tiles = cut.full;
    (is_wide ? kernel.full : kernel.narrow).strip(strip);
    strip.a += few_at * strip.a_stride;
    strip.c += few_at * strip.c_stride;
    strip.num_tiles = cut.few;
    (is_wide ? kernel.few_rows : kernel.few_rows_narrow).strip(strip);
    panel += is_wide ? kernel.panels : 1;
  }
}

// Panels [first_panel, end_panel) of a block's outputs.
void run_block(const Work& work, int32_t block, int32_t first_panel, int32_t end_panel, float* scratch) {
  const int32_t channels = work.x.c;
  const int32_t first = block * work.blocking.tiles;
  const int32_t count = std::min(work.blocking.tiles, work.num_tiles - first);
  const int32_t rows = (count + kFewRows - 1) / kFewRows * kFewRows;
  float* inputs = scratch;
  float* products = scratch + int64_t{kWinogradProducts} * rows * channels;
  transform_block(work, first, count, rows, inputs);

  const auto* weights = static_cast<const float*>(work.args->prepared);
  const float* packed = work.args->in[1].as<float>();  // for the biases
  const int64_t packed_panel = kPanelColumns * (9 * int64_t{channels} + 1);
  for (int32_t panel = first_panel; panel < end_panel; panel += work.blocking.panels) {
    const int32_t panels = std::min(end_panel - panel, work.blocking.panels);
    const int32_t columns = panels * kPanelColumns;
    const int64_t product_floats = int64_t{rows} * columns;
    for (int32_t m = 0; m < kWinogradProducts; ++m) {
      multiply_block(work, rows, panels, inputs + int64_t{m} * rows * channels,
                     weights + (int64_t{panel} * kWinogradProducts + m) * channels * kPanelColumns,
                     products + m * product_floats);
    }
    for (int32_t t = 0; t < count; ++t) {
      const Tile at = locate(work, first + t);
      for (int32_t column = 0; column < columns; column += 4) {
        const int32_t channel = panel * kPanelColumns + column;
        if (channel >= work.y.c) continue;
        const float* bias = packed + channel / kPanelColumns * packed_panel + channel % kPanelColumns;
        finish_tile(work, at, channel, wasm_v128_load(bias), products + t * columns + column, product_floats);
      }
    }
  }
  if (!work.is_slow) return;
  const int32_t channel = first_panel * kPanelColumns;
  const int32_t num_channels = std::min(end_panel * kPanelColumns, work.y.c) - channel;
  for (int32_t t = 0; t < count; ++t) finish_pixels(work, locate(work, first + t), channel, num_channels);
}

}  // namespace

void run_winograd(const KernelArgs& args) {
  Work work;
  work.args = &args;
  work.params = &args.params_as<ConvParams>();
  work.x = make_image(args.in[0], true);
  work.y = make_image(args.out[0], true);
  work.tile_rows = (work.y.size[1] + kWinogradOut - 1) / kWinogradOut;
  work.tile_columns = (work.y.size[2] + kWinogradOut - 1) / kWinogradOut;
  work.num_tiles = work.y.n * work.tile_rows * work.tile_columns;
  work.num_panels = num_panels(work.y.c);
  work.x_pixel = pixel_stride(args.in[0]);
  work.y_pixel = pixel_stride(args.out[0]);
  work.residual_pixel = work.params->residual != 0 ? pixel_stride(args.in[3]) : 0;
  const auto kind = static_cast<ActivationKind>(work.params->activation.kind);
  const bool is_clip = kind == ActivationKind::kClip;
  work.low = is_clip ? work.params->activation.a : -INFINITY;
  work.high = is_clip ? work.params->activation.b : INFINITY;
  work.is_slow = (kind != ActivationKind::kNone && !is_clip) ||
                 work.params->residual == static_cast<int32_t>(Residual::kAfterActivation);
  work.blocking = winograd_blocking(work.num_tiles, work.x.c, work.y.c);
  // Each share transforms the block's inputs anew: no more of them than keep the threads equally busy.
  const int32_t threads = args.parallel->num_threads;
  const int32_t num_blocks = work.blocking.num_blocks;
  int32_t splits = 1;
  while (splits < work.blocking.most_splits && num_blocks * splits < 4 * threads &&
         num_blocks * splits % threads != 0) {
    ++splits;
  }
  parallel_for_slots(args.parallel, num_blocks * splits, work.blocking.num_slots, [&](int share, int slot) {
    auto* scratch = static_cast<char*>(args.scratch) + static_cast<uint64_t>(slot) * work.blocking.slot_bytes;
    const int32_t split = share % splits;
    run_block(work, share / splits, work.num_panels * split / splits, work.num_panels * (split + 1) / splits,
              reinterpret_cast<float*>(scratch));
  });
}

size_t winograd_prepared_bytes(const KernelArgs& args) {
  const Image x = make_image(args.in[0], true);
  const Image y = make_image(args.out[0], true);
  return static_cast<size_t>(winograd_weight_bytes(x.c, y.c));
}

namespace {

// One panel. Out of line: engines replace a function by its optimised form only when it is called anew.
[[gnu::noinline]] void prepare_panel(int32_t channels, const float* taps, float* panel) {
  for (int32_t c = 0; c < channels; ++c) {
    for (int32_t half = 0; half < kPanelColumns; half += 4) {
      const float* from = taps + int64_t{c} * kPanelColumns + half;
      const auto tap = [&](int t) { return wasm_v128_load(from + int64_t{t} * channels * kPanelColumns); };
      v128_t columns[kIn * 3];  // 6 x 3
      for (int j = 0; j < 3; ++j) transform_weights(tap(j), tap(3 + j), tap(6 + j), columns + j, 3);
      for (int i = 0; i < kIn; ++i) {
        v128_t row[kIn];
        transform_weights(columns[3 * i], columns[3 * i + 1], columns[3 * i + 2], row, 1);
        for (int j = 0; j < kIn; ++j) {
          wasm_v128_store(panel + (int64_t{i * kIn + j} * channels + c) * kPanelColumns + half, row[j]);
        }
      }
    }
  }
}

}  // namespace

void prepare_winograd(const KernelArgs& args) {
  const int32_t channels = make_image(args.in[0], true).c;
  const int32_t panels = num_panels(make_image(args.out[0], true).c);
  auto* out = static_cast<float*>(args.prepared);
  const float* packed = args.in[1].as<float>();
  parallel_for(args.parallel, panels, [&](int p, int) {
    prepare_panel(channels, packed + p * (kPanelColumns * (9 * int64_t{channels} + 1)) + kPanelColumns,
                  out + int64_t{p} * kWinogradProducts * channels * kPanelColumns);
  });
}

Status check_winograd(const KernelArgs& args) {
  KILN_TRY(check_images(args, true));
  const auto& p = args.params_as<ConvParams>();
  if (args.in[0].rank != 4) return corrupt("not a 2-D convolution");
  const Image x = make_image(args.in[0], p.input_is_nhwc != 0);
  const Image y = make_image(args.out[0], p.output_is_nhwc != 0);
  if (!can_use_winograd(p, x.c, y.c)) return corrupt("not a convolution that this algorithm can run");
  if (args.num_in > 2 && args.in[2].present()) return corrupt("a bias of its own");
  const TensorRef& packed = args.in[1];
  const int64_t k = 9 * static_cast<int64_t>(x.c);
  if (k > INT32_MAX || packed.dtype != DType::kF32 || packed.rank != 1 || packed.dims[0] != packed_b_floats(y.c, k) ||
      !packed.is_contiguous()) {
    return corrupt("packed weights do not fit the convolution");
  }
  if (packed.data == nullptr) return corrupt("weights are no constant");
  const int64_t tiles = winograd_tiles(y.n, y.size[1], y.size[2]);
  if (tiles > INT32_MAX || winograd_weight_bytes(x.c, y.c) > INT32_MAX) return corrupt("too large");
  return args.scratch_bytes < winograd_scratch_bytes(tiles, x.c, y.c) ? corrupt("too little scratch") : Status();
}

}  // namespace kiln::ops::conv
