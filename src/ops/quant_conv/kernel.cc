#include <algorithm>
#include <cstring>

#include "cpu/simd.h"
#include "ops/conv/geometry.h"
#include "ops/kernel_checks.h"
#include "ops/quant_conv/quant_conv.h"

namespace kiln::ops::quant_conv {

namespace {

using conv::Image;
using conv::make_image;

enum Input { kX, kWeights, kColumns, kResidual };

QuantRescale rescale_of(const KernelArgs& args) {
  const auto& p = args.params_as<QuantConvParams>();
  const bool has_residual = p.conv.residual != 0;
  QuantRescale r = make_rescale(p, args.out[0].dtype, has_residual ? args.in[kResidual].dtype : DType::kInvalid);
  const int32_t columns = args.in[kColumns].dims[0] / (p.has_gains != 0 ? 3 : 2);
  r.multiplier = args.in[kColumns].as<float>() + columns;
  if (p.has_gains != 0) r.gain = r.multiplier + columns;
  return r;
}

// --- products ---

inline v128_t widen_eight(const uint8_t* from, bool is_signed) {
  return is_signed ? wasm_i16x8_load8x8(from) : wasm_u16x8_load8x8(from);
}

int16_t widen_one(uint8_t value, bool is_signed) {
  return is_signed ? static_cast<int16_t>(static_cast<int8_t>(value)) : static_cast<int16_t>(value);
}

void widen_bytes(const uint8_t* from, int32_t count, bool is_signed, int16_t* to) {
  int32_t i = 0;
  for (; i + 8 <= count; i += 8) wasm_v128_store(to + i, widen_eight(from + i, is_signed));
  for (; i < count; ++i) to[i] = widen_one(from[i], is_signed);
}

struct Windows {
  const conv::ConvParams* p;
  const uint8_t* x;
  bool is_signed;
  int16_t zero;
  int32_t height, width, out_height, out_width;
  int32_t group_channels;
  int64_t pixel_stride, image_stride;
};

void widen_pixels(const void* context, int32_t group, int32_t row, int32_t num_rows, int16_t* to, int32_t stride) {
  const auto& w = *static_cast<const Windows*>(context);
  const uint8_t* from = w.x + row * w.pixel_stride + int64_t{group} * w.group_channels;
  for (int32_t r = 0; r < num_rows; ++r, from += w.pixel_stride, to += stride) {
    widen_bytes(from, w.group_channels, w.is_signed, to);
  }
}

void widen_window(const Windows& w, const uint8_t* image, int32_t top, int32_t left, int16_t* to) {
  const conv::ConvParams& p = *w.p;
  const int32_t run = p.kernel[2] * w.group_channels;
  const bool is_run =
      w.pixel_stride == w.group_channels && p.dilation[2] == 1 && left >= 0 && left + p.kernel[2] <= w.width;
  for (int32_t kh = 0; kh < p.kernel[1]; ++kh, to += run) {
    const int32_t y = top + kh * p.dilation[1];
    if (y < 0 || y >= w.height) {
      std::fill(to, to + run, w.zero);
      continue;
    }
    const uint8_t* line = image + static_cast<int64_t>(y) * w.width * w.pixel_stride;
    if (is_run) {
      widen_bytes(line + left * w.pixel_stride, run, w.is_signed, to);
      continue;
    }
    for (int32_t kw = 0; kw < p.kernel[2]; ++kw) {
      const int32_t x = left + kw * p.dilation[2];
      int16_t* pixel = to + kw * w.group_channels;
      if (x < 0 || x >= w.width)
        std::fill(pixel, pixel + w.group_channels, w.zero);
      else
        widen_bytes(line + x * w.pixel_stride, w.group_channels, w.is_signed, pixel);
    }
  }
}

void widen_windows(const void* context, int32_t group, int32_t row, int32_t num_rows, int16_t* to, int32_t stride) {
  const auto& w = *static_cast<const Windows*>(context);
  const conv::ConvParams& p = *w.p;
  for (int32_t r = row; r < row + num_rows; ++r, to += stride) {
    const int32_t line = r / w.out_width;
    const int32_t image = line / w.out_height;
    widen_window(w, w.x + image * w.image_stride + int64_t{group} * w.group_channels,
                 (line - image * w.out_height) * p.stride[1] - p.pad_begin[1],
                 (r - line * w.out_width) * p.stride[2] - p.pad_begin[2], to);
  }
}

bool is_pixelwise(const conv::ConvParams& p) {
  for (int i = 1; i < 3; ++i) {
    if (p.kernel[i] != 1 || p.stride[i] != 1 || p.pad_begin[i] != 0 || p.pad_end[i] != 0) return false;
  }
  return true;
}

void run_gemm(const KernelArgs& args) {
  const auto& q = args.params_as<QuantConvParams>();
  const Image x = make_image(args.in[kX], true);
  const Image y = make_image(args.out[0], true);
  Windows w;
  w.p = &q.conv;
  w.x = args.in[kX].as<uint8_t>();
  w.is_signed = args.in[kX].dtype == DType::kI8;
  w.zero = static_cast<int16_t>(q.x_zero);
  w.height = x.size[1];
  w.width = x.size[2];
  w.out_height = y.size[1];
  w.out_width = y.size[2];
  w.group_channels = x.c / q.conv.group;
  w.pixel_stride = conv::pixel_stride(args.in[kX]);
  w.image_stride = w.pixel_stride * x.size[1] * x.size[2];

  QuantGemm gemm;
  gemm.num_groups = q.conv.group;
  gemm.m = y.n * y.size[1] * y.size[2];
  gemm.n = y.c / q.conv.group;
  gemm.k = q.conv.kernel[1] * q.conv.kernel[2] * w.group_channels;
  gemm.widen_rows = is_pixelwise(q.conv) ? widen_pixels : widen_windows;
  gemm.rows_context = &w;
  gemm.b = args.in[kWeights].as<int8_t>();
  gemm.bias = args.in[kColumns].as<int32_t>();
  gemm.rescale = rescale_of(args);
  gemm.c = args.out[0].data;
  gemm.c_stride = conv::pixel_stride(args.out[0]);
  if (q.conv.residual != 0) {
    gemm.residual = args.in[kResidual].data;
    gemm.residual_stride = conv::pixel_stride(args.in[kResidual]);
  }
  run_quant_gemm(gemm, args.parallel, args.scratch);
}

// --- depthwise: eight channels of a pixel at a time, two positions of the window in one multiplication ---

// Sums of eight channels from `c` on.
template <bool is_signed>
void sum_taps(const uint8_t* const* taps, int32_t pairs, int32_t c, int32_t channels, const int8_t* weights,
              const int32_t* bias, v128_t sums[2]) {
  sums[0] = wasm_v128_load(bias + c);
  sums[1] = wasm_v128_load(bias + c + 4);
  const int8_t* w = weights + 2 * c;
  for (int32_t i = 0; i < pairs; ++i, w += 2 * static_cast<int64_t>(channels)) {
    const v128_t a = is_signed ? wasm_i16x8_load8x8(taps[2 * i] + c) : wasm_u16x8_load8x8(taps[2 * i] + c);
    const v128_t b = is_signed ? wasm_i16x8_load8x8(taps[2 * i + 1] + c) : wasm_u16x8_load8x8(taps[2 * i + 1] + c);
    const v128_t low = wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    const v128_t high = wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    sums[0] = wasm_i32x4_add(sums[0], wasm_i32x4_dot_i16x8(low, wasm_i16x8_load8x8(w)));
    sums[1] = wasm_i32x4_add(sums[1], wasm_i32x4_dot_i16x8(high, wasm_i16x8_load8x8(w + 8)));
  }
}

void run_depthwise(const KernelArgs& args) {
  const auto& q = args.params_as<QuantConvParams>();
  const conv::ConvParams& p = q.conv;
  const Image x = make_image(args.in[kX], true);
  const Image y = make_image(args.out[0], true);
  const int64_t x_pixel = conv::pixel_stride(args.in[kX]);
  const int64_t y_pixel = conv::pixel_stride(args.out[0]);
  const bool has_residual = p.residual != 0;
  const int64_t residual_pixel = has_residual ? conv::pixel_stride(args.in[kResidual]) : 0;
  const int64_t item = args.out[0].dtype == DType::kF32 ? 4 : 1;
  const auto* zeros = static_cast<const uint8_t*>(args.scratch);
  std::memset(args.scratch, q.x_zero & 0xff, static_cast<size_t>(x.c));
  const QuantRescale rescale = rescale_of(args);
  const auto* weights = args.in[kWeights].as<int8_t>();
  const auto* bias = args.in[kColumns].as<int32_t>();
  const int32_t taps = p.kernel[1] * p.kernel[2];
  const bool is_signed = args.in[kX].dtype == DType::kI8;

  parallel_for(args.parallel, y.n * y.size[1], [&](int tile, int) {
    const BoundedRescale bounded(rescale);
    const int32_t oh = tile % y.size[1];
    const uint8_t* image =
        args.in[kX].as<uint8_t>() + static_cast<int64_t>(tile / y.size[1]) * x.size[1] * x.size[2] * x_pixel;
    const uint8_t* at[kMaxDepthwiseTaps + 1];
    for (int32_t ow = 0; ow < y.size[2]; ++ow) {
      for (int32_t t = 0; t < taps; ++t) {
        const int32_t h = oh * p.stride[1] + t / p.kernel[2] * p.dilation[1] - p.pad_begin[1];
        const int32_t v = ow * p.stride[2] + t % p.kernel[2] * p.dilation[2] - p.pad_begin[2];
        const bool is_inside = h >= 0 && h < x.size[1] && v >= 0 && v < x.size[2];
        at[t] = is_inside ? image + (static_cast<int64_t>(h) * x.size[2] + v) * x_pixel : zeros;
      }
      at[taps] = zeros;  // times 0
      const int64_t row = static_cast<int64_t>(tile) * y.size[2] + ow;
      const char* residual = has_residual ? args.in[kResidual].as<char>() + row * residual_pixel : nullptr;
      char* to = args.out[0].as<char>() + row * y_pixel * item;
      for (int32_t next = 0; next < x.c; next += kQuantColumns) {
        const int32_t c = std::min(next, x.c - kQuantColumns);
        v128_t sums[2];
        if (is_signed)
          sum_taps<true>(at, (taps + 1) / 2, c, x.c, weights, bias, sums);
        else
          sum_taps<false>(at, (taps + 1) / 2, c, x.c, weights, bias, sums);
        if (bounded.applies)
          bounded.store(sums[0], sums[1], rescale.multiplier + c, to + c);
        else
          rescale_eight(rescale, sums[0], sums[1], c, has_residual ? residual + c : nullptr, to + c * item);
      }
    }
  });
}

// --- checks ---

bool is_vector(const TensorRef& ref, DType dtype, int64_t length) {
  return ref.dtype == dtype && ref.rank == 1 && ref.dims[0] == length && ref.is_contiguous();
}

bool is_byte(DType dtype) { return dtype == DType::kU8 || dtype == DType::kI8; }

bool is_zero_of(DType dtype, int32_t zero) {
  return dtype == DType::kI8 ? zero >= -128 && zero <= 127 : zero >= 0 && zero <= 255;
}

const char* rescale_problem(const KernelArgs& args) {
  const auto& q = args.params_as<QuantConvParams>();
  const DType y = args.out[0].dtype;
  if (!(q.low <= q.high)) return "quantised bounds";
  if (y != DType::kF32) {
    if (!is_byte(y) || !is_zero_of(y, q.y_zero)) return "zero of y";
    const float lowest = y == DType::kI8 ? -128 : 0;
    if (q.low + static_cast<float>(q.y_zero) < lowest || q.high + static_cast<float>(q.y_zero) > lowest + 255) {
      return "quantised bounds";
    }
  }
  return nullptr;
}

const char* problem(const KernelArgs& args, bool is_depthwise) {
  const auto& q = args.params_as<QuantConvParams>();
  const conv::ConvParams& p = q.conv;
  const TensorRef& x = args.in[kX];
  const TensorRef& y = args.out[0];
  if (!is_byte(x.dtype) || !is_zero_of(x.dtype, q.x_zero)) return "x";
  if (x.rank < 2 || x.rank > 4 || y.rank != x.rank) return "rank";
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] < 1 || y.dims[i] < 1) return "an operand is empty";
  }
  const Image in = make_image(x, true);
  const Image out = make_image(y, true);
  if (!conv::check_window(p, in, out).ok() || p.kernel[0] != 1) return "window";
  if (p.residual < 0 || p.residual > 2) return "unknown kind of residual";
  const bool has_residual = args.num_in > kResidual && args.in[kResidual].present();
  if (has_residual != (p.residual != 0)) return "residual";
  if (has_residual && (!is_byte(args.in[kResidual].dtype) || !same_dims(args.in[kResidual], y))) return "residual";
  if (!is_activation(p.activation)) return "unknown activation";

  const int64_t group_out = out.c / p.group;
  const int64_t taps = static_cast<int64_t>(p.kernel[1]) * p.kernel[2];
  int64_t k = 0;
  if (__builtin_mul_overflow(taps, static_cast<int64_t>(in.c / p.group), &k) || k > (1 << 26)) return "window";
  if (is_depthwise && (p.group != in.c || out.c != in.c || in.c < kQuantColumns || taps > kMaxDepthwiseTaps))
    return "channels";
  const int64_t columns = is_depthwise ? in.c : int64_t{quant_panels(group_out)} * kQuantColumns * p.group;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(columns, quant_depth(k), &bytes) || bytes > INT32_MAX) return "weights";
  if (!is_vector(args.in[kWeights], DType::kI8, bytes) ||
      !is_vector(args.in[kColumns], DType::kI32, columns * (q.has_gains != 0 ? 3 : 2))) {
    return "weights";
  }

  const uint64_t scratch = is_depthwise
                               ? static_cast<uint64_t>(in.c)
                               : quant_gemm_scratch_bytes(out.n * out.size[1] * out.size[2], static_cast<int32_t>(k));
  if (args.scratch_bytes < scratch) return "too little scratch";
  return rescale_problem(args);
}

Status check(const KernelArgs& args, bool is_depthwise) {
  KILN_TRY(check_params<QuantConvParams>(args));
  KILN_TRY(check_operands(args, 1, 4, 1));
  if (args.num_in <= kColumns) return corrupt("number of inputs");
  KILN_TRY(check_layouts(args, false, false));
  const char* what = problem(args, is_depthwise);
  return what == nullptr ? Status() : corrupt(what);
}

Status check_gemm(const KernelArgs& args) { return check(args, false); }
Status check_depthwise(const KernelArgs& args) { return check(args, true); }

}  // namespace

std::span<const KernelDef> kernels() {
  static const KernelDef kTable[] = {
      {"quant_conv_gemm", run_gemm, check_gemm, true, true},
      {"quant_conv_depthwise", run_depthwise, check_depthwise, true, true},
  };
  return kTable;
}

}  // namespace kiln::ops::quant_conv
