// conv_f32_depthwise: channels in vectors of four, four neighbouring outputs of a row at a time.
//
// A tile's input columns are pointers, those in the padding pointing at zeros, so the borders run as fast as
// the rest. Each loaded input serves all outputs of the tile that it reaches, each loaded weight serves the
// whole tile. The last vector of channels overlaps the one before where their number is no multiple of four.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/activation_f32.h"
#include "ops/conv/geometry.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::conv {

namespace {

constexpr int32_t kTile = 4;
constexpr int32_t kMaxKernel = 5;
constexpr int32_t kMaxColumns = (kTile - 1) * 2 + kMaxKernel;

struct Epilogue {
  float low = -INFINITY, high = INFINITY;
  bool adds = false;  // the residual, before the activation
};

inline void store_output(const Epilogue& e, v128_t sum, const float* residual, float* y) {
  if (e.adds) sum = wasm_f32x4_add(sum, wasm_v128_load(residual));
  wasm_v128_store(y, clip_f32x4(sum, wasm_f32x4_splat(e.low), wasm_f32x4_splat(e.high)));
}

// Outputs [0, count) of a tile, all channels. columns: (kh, (kTile - 1) * kStride + kKernelW).
template <int32_t kKernelW, int32_t kStride>
void run_tile(const Epilogue& epilogue, int32_t channels, int32_t num_kh, const float* const* columns,
              const float* bias, const float* weights, int32_t count, const float* residual, int64_t residual_stride,
              float* y, int64_t y_stride) {
  constexpr int32_t kColumns = (kTile - 1) * kStride + kKernelW;
  for (int32_t next = 0; next < channels; next += 4) {
    const int32_t c = std::min(next, channels - 4);
    v128_t sums[kTile];
    KILN_UNROLL
    for (int32_t t = 0; t < kTile; ++t) sums[t] = wasm_v128_load(bias + c);
    const float* weight = weights + c;
    const float* const* column = columns;
    for (int32_t kh = 0; kh < num_kh; ++kh) {
      v128_t w[kKernelW];
      KILN_UNROLL
      for (int32_t kw = 0; kw < kKernelW; ++kw) {
        w[kw] = wasm_v128_load(weight);
        weight += channels;
      }
      KILN_UNROLL
      for (int32_t i = 0; i < kColumns; ++i) {
        const v128_t x = wasm_v128_load(column[i] + c);
        KILN_UNROLL
        for (int32_t t = 0; t < kTile; ++t) {
          if (i >= t * kStride && i < t * kStride + kKernelW) sums[t] = f32x4_madd(x, w[i - t * kStride], sums[t]);
        }
      }
      column += kColumns;
    }
    KILN_UNROLL
    for (int32_t t = 0; t < kTile; ++t) {
      if (t < count) {
        store_output(epilogue, sums[t], residual + t * residual_stride + c, y + t * y_stride + c);
      }
    }
  }
}

using TileFn = void (*)(const Epilogue&, int32_t, int32_t, const float* const*, const float*, const float*, int32_t,
                        const float*, int64_t, float*, int64_t);

TileFn choose_tile(const ConvParams& p) {
  if (p.dilation[2] != 1 || p.kernel[1] > kMaxKernel) return nullptr;
  if (p.kernel[2] == 3 && p.stride[2] == 1) return run_tile<3, 1>;
  if (p.kernel[2] == 3 && p.stride[2] == 2) return run_tile<3, 2>;
  if (p.kernel[2] == 5 && p.stride[2] == 1) return run_tile<5, 1>;
  if (p.kernel[2] == 5 && p.stride[2] == 2) return run_tile<5, 2>;
  return nullptr;
}

// Kernel positions [begin, end) of one axis that lie within the input.
struct Taps {
  int32_t begin, end;
};
Taps taps_inside(int32_t first, int32_t kernel, int32_t dilation, int32_t size) {
  Taps taps;
  taps.begin = first < 0 ? std::min(kernel, (-first + dilation - 1) / dilation) : 0;
  taps.end = size > first ? std::min(kernel, (size - first + dilation - 1) / dilation) : 0;
  return taps;
}

struct RowOperands {
  const float* x;         // the image
  const float* residual;  // the row's, or zeros that nobody reads
  float* y;
  int64_t x_row, x_pixel, residual_pixel, y_pixel;
};

// One output, any kernel.
void run_pixel(const ConvParams& p, const Epilogue& epilogue, const Image& x, const RowOperands& at, int32_t top,
               int32_t left, const float* packed, const float* residual, float* y) {
  const Taps rows = taps_inside(top, p.kernel[1], p.dilation[1], x.size[1]);
  const Taps columns = taps_inside(left, p.kernel[2], p.dilation[2], x.size[2]);
  for (int32_t next = 0; next < x.c; next += 4) {
    const int32_t c = std::min(next, x.c - 4);
    v128_t sum = wasm_v128_load(packed + c);
    for (int32_t kh = rows.begin; kh < rows.end; ++kh) {
      const float* from = at.x + (top + kh * p.dilation[1]) * at.x_row + c;
      const float* weight = packed + (1 + static_cast<int64_t>(kh) * p.kernel[2] + columns.begin) * x.c + c;
      for (int32_t kw = columns.begin; kw < columns.end; ++kw, weight += x.c) {
        sum = f32x4_madd(wasm_v128_load(from + (left + kw * p.dilation[2]) * at.x_pixel), wasm_v128_load(weight), sum);
      }
    }
    store_output(epilogue, sum, residual + c, y + c);
  }
}

// What is not a clip: the activation of a row, and a residual behind it.
void finish_row(const ConvParams& p, int32_t channels, int32_t width, const RowOperands& at) {
  const bool adds = p.residual == static_cast<int32_t>(Residual::kAfterActivation);
  const bool is_clip = p.activation.kind == static_cast<int32_t>(ActivationKind::kClip);
  if (!adds && (is_clip || p.activation.kind == 0)) return;
  if (!adds && at.y_pixel == channels) {
    activate_f32(p.activation, at.y, int64_t{width} * channels);
    return;
  }
  for (int32_t i = 0; i < width; ++i) {
    float* y = at.y + i * at.y_pixel;
    activate_f32(p.activation, y, channels);
    if (adds) add_f32(at.residual + i * at.residual_pixel, channels, y);
  }
}

}  // namespace

void run_depthwise(const KernelArgs& args) {
  const auto& p = args.params_as<ConvParams>();
  const Image x = make_image(args.in[0], true);
  const Image y = make_image(args.out[0], true);
  const float* packed = args.in[1].as<float>();
  auto* zeros = static_cast<float*>(args.scratch);
  std::memset(zeros, 0, static_cast<size_t>(x.c) * sizeof(float));

  Epilogue epilogue;
  const auto kind = static_cast<ActivationKind>(p.activation.kind);
  if (kind == ActivationKind::kClip) {
    epilogue.low = p.activation.a;
    epilogue.high = p.activation.b;
  }
  epilogue.adds = p.residual == static_cast<int32_t>(Residual::kBeforeActivation);

  RowOperands base;
  base.x_pixel = pixel_stride(args.in[0]);
  base.x_row = base.x_pixel * x.size[2];
  base.y_pixel = pixel_stride(args.out[0]);
  base.residual_pixel = p.residual != 0 ? pixel_stride(args.in[3]) : 0;
  const TileFn tile_fn = choose_tile(p);
  const int32_t num_columns = (kTile - 1) * p.stride[2] + p.kernel[2];

  parallel_for(args.parallel, y.n * y.size[1], [&](int row, int) {
    RowOperands at = base;
    const int64_t row_pixels = static_cast<int64_t>(row) * y.size[2];
    at.x = args.in[0].as<float>() + row / y.size[1] * at.x_row * x.size[1];
    at.y = args.out[0].as<float>() + row_pixels * at.y_pixel;
    at.residual = p.residual != 0 ? args.in[3].as<float>() + row_pixels * at.residual_pixel : zeros;
    const int32_t top = row % y.size[1] * p.stride[1] - p.pad_begin[1];
    if (tile_fn == nullptr) {
      for (int32_t ow = 0; ow < y.size[2]; ++ow) {
        run_pixel(p, epilogue, x, at, top, ow * p.stride[2] - p.pad_begin[2], packed,
                  at.residual + ow * at.residual_pixel, at.y + ow * at.y_pixel);
      }
      finish_row(p, x.c, y.size[2], at);
      return;
    }
    const Taps rows = taps_inside(top, p.kernel[1], p.dilation[1], x.size[1]);
    const float* weights = packed + (1 + static_cast<int64_t>(rows.begin) * p.kernel[2]) * x.c;
    for (int32_t ow = 0; ow < y.size[2]; ow += kTile) {
      const float* columns[kMaxKernel * kMaxColumns];
      const float** column = columns;
      const int32_t left = ow * p.stride[2] - p.pad_begin[2];
      for (int32_t kh = rows.begin; kh < rows.end; ++kh) {
        const float* from = at.x + (top + kh * p.dilation[1]) * at.x_row;
        for (int32_t i = left; i < left + num_columns; ++i) {
          *column++ = i >= 0 && i < x.size[2] ? from + i * at.x_pixel : zeros;
        }
      }
      tile_fn(epilogue, x.c, std::max(0, rows.end - rows.begin), columns, packed, weights,
              std::min(kTile, y.size[2] - ow), at.residual + ow * at.residual_pixel, at.residual_pixel,
              at.y + ow * at.y_pixel, at.y_pixel);
    }
    finish_row(p, x.c, y.size[2], at);
  });
}

Status check_depthwise(const KernelArgs& args) {
  KILN_TRY(check_images(args, true));
  const auto& p = args.params_as<ConvParams>();
  if (p.input_is_nhwc == 0 || p.output_is_nhwc == 0 || p.kernel[0] != 1 || args.in[0].rank > 4) {
    return corrupt("not a 2-D NHWC convolution");
  }
  const Image x = make_image(args.in[0], true);
  const Image y = make_image(args.out[0], true);
  if (x.c < 4 || x.c != y.c || p.group != x.c) return corrupt("not a depthwise convolution");
  if (args.num_in > 2 && args.in[2].present()) return corrupt("bias is not packed");
  const TensorRef& packed = args.in[1];
  const int64_t taps = static_cast<int64_t>(p.kernel[1]) * p.kernel[2];
  int64_t floats = 0;
  if (__builtin_mul_overflow(taps + 1, static_cast<int64_t>(x.c), &floats) || packed.dtype != DType::kF32 ||
      packed.rank != 1 || packed.dims[0] != floats || !packed.is_contiguous()) {
    return corrupt("packed weights do not fit the convolution");
  }
  if (args.scratch_bytes < static_cast<size_t>(x.c) * sizeof(float)) return corrupt("too little scratch");
  return {};
}

}  // namespace kiln::ops::conv
