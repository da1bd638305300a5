#include <cmath>

#include "cpu/simd.h"
#include "ops/kernel_checks.h"
#include "ops/pool/pool.h"

namespace kiln::ops::pool {

void pool_reference(const KernelArgs& args);
void global_pool_reference(const KernelArgs& args);
void pool_bytes(const KernelArgs& args);

namespace {

v128_t combine(bool is_max, v128_t a, v128_t b) { return is_max ? wasm_f32x4_pmax(a, b) : wasm_f32x4_add(a, b); }
float combine(bool is_max, float a, float b) { return is_max ? (a < b ? b : a) : a + b; }

// One window of an NHWC tensor for all channels: `taps` steps in three directions from `from`.
struct Window {
  const float* from;
  int64_t count[3];
  int64_t step[3];
  float divisor;
};

// kBlocks vectors of channels at once.
template <bool is_max, int kBlocks>
void pool_channels(const Window& w, int64_t c, float* to) {
  v128_t sum[kBlocks];
  for (int b = 0; b < kBlocks; ++b) sum[b] = wasm_f32x4_splat(is_max ? -INFINITY : 0.0f);
  for (int64_t d = 0; d < w.count[0]; ++d) {
    for (int64_t h = 0; h < w.count[1]; ++h) {
      const float* x = w.from + d * w.step[0] + h * w.step[1] + c;
      for (int64_t k = 0; k < w.count[2]; ++k, x += w.step[2]) {
        for (int b = 0; b < kBlocks; ++b) sum[b] = combine(is_max, sum[b], wasm_v128_load(x + 4 * b));
      }
    }
  }
  const v128_t divisor = wasm_f32x4_splat(w.divisor);
  for (int b = 0; b < kBlocks; ++b) {
    wasm_v128_store(to + c + 4 * b, is_max ? sum[b] : wasm_f32x4_div(sum[b], divisor));
  }
}

template <bool is_max>
void pool_pixel(const Window& w, int64_t channels, int64_t c_stride, float* to, int64_t to_stride) {
  int64_t c = 0;
  if (c_stride == 1 && to_stride == 1) {
    for (; c + 16 <= channels; c += 16) pool_channels<is_max, 4>(w, c, to);
    for (; c + 4 <= channels; c += 4) pool_channels<is_max, 1>(w, c, to);
  }
  for (; c < channels; ++c) {
    float sum = is_max ? -INFINITY : 0.0f;
    for (int64_t d = 0; d < w.count[0]; ++d) {
      for (int64_t h = 0; h < w.count[1]; ++h) {
        const float* x = w.from + d * w.step[0] + h * w.step[1] + c * c_stride;
        for (int64_t k = 0; k < w.count[2]; ++k, x += w.step[2]) sum = combine(is_max, sum, *x);
      }
    }
    to[c * to_stride] = is_max ? sum : sum / w.divisor;
  }
}

// NHWC: a tile is a row of output pixels with all channels. NCHW: a row of one plane, a pixel having one channel.
void pool_f32(const KernelArgs& args) {
  const auto& p = args.params_as<PoolParams>();
  const PoolTensor x(args.in[0], p.spatial, p.is_nhwc != 0);
  const PoolTensor y(args.out[0], p.spatial, p.is_nhwc != 0);
  if (args.out[0].num_elements() == 0) return;
  const bool is_max = p.kind == static_cast<int32_t>(PoolKind::kMax);
  const int64_t planes = p.is_nhwc ? 1 : y.c;
  const int64_t channels = p.is_nhwc ? y.c : 1;
  const int64_t rows = y.n * planes * y.dims[0] * y.dims[1];
  parallel_for(args.parallel, static_cast<int>(rows), [&](int tile, int) {
    const int64_t oh = tile % y.dims[1];
    const int64_t od = tile / y.dims[1] % y.dims[0];
    const int64_t plane = tile / (y.dims[1] * y.dims[0]) % planes;
    const int64_t n = tile / (y.dims[1] * y.dims[0] * planes);
    const PoolTaps td(p, 0, od, x.dims[0]);
    const PoolTaps th(p, 1, oh, x.dims[1]);
    const float* from = args.in[0].as<float>() + n * x.n_stride + plane * x.c_stride;
    float* to = args.out[0].as<float>() + n * y.n_stride + plane * y.c_stride + od * y.strides[0] + oh * y.strides[1];
    for (int64_t ow = 0; ow < y.dims[2]; ++ow) {
      const PoolTaps tw(p, 2, ow, x.dims[2]);
      Window w;
      w.count[0] = td.end - td.begin;
      w.count[1] = th.end - th.begin;
      w.count[2] = tw.end - tw.begin;
      for (int i = 0; i < 3; ++i) w.step[i] = p.dilation[i] * x.strides[i];
      const int64_t count =
          p.count_include_pad ? td.padded * th.padded * tw.padded : w.count[0] * w.count[1] * w.count[2];
      w.divisor = count > 0 ? static_cast<float>(count) : 1.0f;
      w.from = from;
      if (w.count[0] > 0 && w.count[1] > 0 && w.count[2] > 0) {
        w.from += (td.start + td.begin * p.dilation[0]) * x.strides[0] +
                  (th.start + th.begin * p.dilation[1]) * x.strides[1] +
                  (tw.start + tw.begin * p.dilation[2]) * x.strides[2];
      } else {
        w.count[0] = 0;
      }
      if (is_max)
        pool_pixel<true>(w, channels, x.c_stride, to + ow * y.strides[2], y.c_stride);
      else
        pool_pixel<false>(w, channels, x.c_stride, to + ow * y.strides[2], y.c_stride);
    }
  });
}

Status check_pool(const KernelArgs& args, int max_outputs) {
  KILN_TRY(check_params<PoolParams>(args));
  if (args.num_in != 1 || !args.in[0].present() || args.num_out < 1 || args.num_out > max_outputs ||
      !args.out[0].present()) {
    return corrupt("pool: operands");
  }
  KILN_TRY(check_layouts(args, false, false));
  const auto& p = args.params_as<PoolParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (p.spatial < 1 || p.spatial > 3 || x.rank != p.spatial + 2 || y.rank != x.rank || x.dtype != y.dtype) {
    return corrupt("pool: rank or dtype");
  }
  if (p.kind < 0 || p.kind > static_cast<int32_t>(PoolKind::kLp) || p.p < 1) return corrupt("pool: parameters");
  const PoolTensor xt(x, p.spatial, p.is_nhwc != 0);
  const PoolTensor yt(y, p.spatial, p.is_nhwc != 0);
  if (xt.n != yt.n || xt.c != yt.c) return corrupt("pool: dims do not match");
  for (int i = 0; i < 3; ++i) {
    if (p.kernel[i] < 1 || p.stride[i] < 1 || p.dilation[i] < 1 || p.pad_begin[i] < 0 || p.pad_end[i] < 0 ||
        (i < 3 - p.spatial && (p.pad_begin[i] > 0 || p.kernel[i] > 1))) {
      return corrupt("pool: parameters");
    }
  }
  if (args.num_out > 1 && args.out[1].present() && (args.out[1].dtype != DType::kI64 || !same_dims(args.out[1], y))) {
    return corrupt("pool: Indices");
  }
  return {};
}

Status check_pool_f32(const KernelArgs& args) {
  KILN_TRY(check_pool(args, 1));
  if (args.in[0].dtype != DType::kF32 || args.params_as<PoolParams>().kind > 1) return corrupt("pool_f32: dtype");
  return {};
}

// As pool_bytes has it: channels side by side.
Status check_pool_bytes(const KernelArgs& args) {
  KILN_TRY(check_pool(args, 1));
  const auto& p = args.params_as<PoolParams>();
  const DType dtype = args.in[0].dtype;
  if ((dtype != DType::kU8 && dtype != DType::kI8) || p.kind != 0 || p.is_nhwc == 0 || p.spatial > 2) {
    return corrupt("pool_bytes: form");
  }
  return {};
}

Status check_pool_plain(const KernelArgs& args) { return check_pool(args, 2); }

// x is (batch, plane, channels) or (batch, channels, plane). A tile is up to 16 channels of an NHWC image, or one
// plane.
void global_pool_f32(const KernelArgs& args) {
  const auto& p = args.params_as<GlobalPoolParams>();
  const TensorRef& x = args.in[0];
  if (args.out[0].num_elements() == 0) return;
  const bool is_max = p.kind == static_cast<int32_t>(PoolKind::kMax);
  const int64_t batch = x.dims[0];
  const int64_t channels = p.is_nhwc ? x.dims[x.rank - 1] : x.dims[1];
  const int64_t plane = x.num_elements() / (batch * channels);
  const float initial = is_max ? -INFINITY : 0.0f;
  const float divisor = is_max ? 1.0f : static_cast<float>(plane);
  float* out = args.out[0].as<float>();
  if (!p.is_nhwc) {
    // A plane is `rows` runs of `width`; one run if dense.
    const int64_t width = x.is_contiguous() ? plane : x.dims[x.rank - 1];
    const int64_t row_pitch = x.is_contiguous() ? plane : row_stride(x);
    const int64_t rows = width > 0 ? plane / width : 0;
    parallel_for(args.parallel, static_cast<int>(batch * channels), [&](int tile, int) {
      v128_t sums = wasm_f32x4_splat(initial);
      float sum = initial;
      for (int64_t row = 0; row < rows; ++row) {
        const float* from = x.as<float>() + (tile * rows + row) * row_pitch;
        int64_t i = 0;
        for (; i + 4 <= width; i += 4) sums = combine(is_max, sums, wasm_v128_load(from + i));
        for (; i < width; ++i) sum = combine(is_max, sum, from[i]);
      }
      sum = combine(is_max, sum,
                    combine(is_max, combine(is_max, wasm_f32x4_extract_lane(sums, 0), wasm_f32x4_extract_lane(sums, 1)),
                            combine(is_max, wasm_f32x4_extract_lane(sums, 2), wasm_f32x4_extract_lane(sums, 3))));
      out[tile] = sum / divisor;
    });
    return;
  }
  const int64_t pitch = row_stride(x);  // between pixels
  const int64_t groups = (channels + 15) / 16;
  parallel_for(args.parallel, static_cast<int>(batch * groups), [&](int tile, int) {
    const int64_t n = tile / groups;
    const int64_t c = tile % groups * 16;
    Window w = {x.as<float>() + n * plane * pitch, {1, 1, plane}, {0, 0, pitch}, divisor};
    const int64_t count = channels - c < 16 ? channels - c : 16;
    w.from += c;
    if (is_max)
      pool_pixel<true>(w, count, 1, out + n * channels + c, 1);
    else
      pool_pixel<false>(w, count, 1, out + n * channels + c, 1);
  });
}

Status check_global(const KernelArgs& args, bool dense_inputs) {
  KILN_TRY(check_params<GlobalPoolParams>(args));
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layouts(args, dense_inputs, true));
  const auto& p = args.params_as<GlobalPoolParams>();
  TensorRef x = args.in[0];
  const TensorRef& y = args.out[0];
  if (p.kind < 0 || p.kind > static_cast<int32_t>(PoolKind::kLp) || p.p < 1 || x.rank < 3 || x.dtype != y.dtype) {
    return corrupt("global_pool: parameters");
  }
  const int first = p.is_nhwc ? 1 : 2;
  for (int i = first; i < first + x.rank - 2; ++i) x.dims[i] = 1;
  if (!same_dims(x, y)) return corrupt("global_pool: dims do not match");
  return {};
}

Status check_global_f32(const KernelArgs& args) {
  KILN_TRY(check_global(args, false));
  if (args.in[0].dtype != DType::kF32 || args.params_as<GlobalPoolParams>().kind > 1) {
    return corrupt("global_pool_f32: dtype");
  }
  return {};
}

Status check_global_plain(const KernelArgs& args) { return check_global(args, true); }

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"pool_f32", pool_f32, check_pool_f32, true, true},
      {"pool_bytes", pool_bytes, check_pool_bytes, true, true},
      {"pool_plain", pool_reference, check_pool_plain, true, true},
      {"global_pool_f32", global_pool_f32, check_global_f32, true, false},
      {"global_pool_plain", global_pool_reference, check_global_plain, false, false},
  };
  return kKernels;
}

}  // namespace kiln::ops::pool
