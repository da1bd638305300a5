#include <cmath>
#include <cstring>

#include "cpu/broadcast.h"
#include "cpu/vector_math.h"
#include "ops/kernel_checks.h"
#include "ops/norm/norm.h"

namespace kiln::ops::norm {

void batch_norm_any(const KernelArgs& args);
void instance_norm_any(const KernelArgs& args);
void layer_norm_any(const KernelArgs& args);
void lrn_any(const KernelArgs& args);
void mean_variance_norm_any(const KernelArgs& args);

namespace {

constexpr int64_t kTile = 16 * 1024;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// y[i] = x[i] * scale + shift
[[gnu::noinline]] void scale_shift(const float* x, float* y, int64_t n, float scale, float shift) {
  const v128_t a = wasm_f32x4_splat(scale);
  const v128_t b = wasm_f32x4_splat(shift);
  int64_t i = 0;
#pragma GCC unroll 1
  for (; i + 4 <= n; i += 4) wasm_v128_store(y + i, f32x4_madd(wasm_v128_load(x + i), a, b));
#pragma GCC unroll 1
  for (; i < n; ++i) y[i] = f32_madd(x[i], scale, shift);
}

// y[i] = x[i] * scale[i] + shift[i]
[[gnu::noinline]] void scale_shift_each(const float* x, float* y, int64_t n, const float* scale, const float* shift) {
  int64_t i = 0;
#pragma GCC unroll 1
  for (; i + 4 <= n; i += 4) {
    wasm_v128_store(y + i, f32x4_madd(wasm_v128_load(x + i), wasm_v128_load(scale + i), wasm_v128_load(shift + i)));
  }
#pragma GCC unroll 1
  for (; i < n; ++i) y[i] = f32_madd(x[i], scale[i], shift[i]);
}

// Folds the five operands into a factor and a summand a channel, then runs along rows.
void batch_norm_f32(const KernelArgs& args) {
  const auto& p = args.params_as<BatchNormParams>();
  const float* x = args.in[0].as<float>();
  float* y = args.out[0].as<float>();
  float* scale = static_cast<float*>(args.scratch);
  float* shift = scale + p.image.channels;
  for (int32_t c = 0; c < p.image.channels; ++c) {
    const double variance = static_cast<double>(args.in[4].as<float>()[c]) + p.epsilon;
    const double factor = args.in[1].as<float>()[c] / std::sqrt(variance);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(args.in[2].as<float>()[c] - args.in[3].as<float>()[c] * factor);
  }
  const int64_t n = p.image.is_nhwc ? p.image.channels : p.image.inner;
  const int64_t rows = int64_t{p.image.outer} * (p.image.is_nhwc ? p.image.inner : p.image.channels);
  const int64_t rows_per_tile = n < kTile ? kTile / (n + 1) + 1 : 1;
  parallel_for(args.parallel, static_cast<int>((rows + rows_per_tile - 1) / rows_per_tile), [&](int tile, int) {
    const int64_t end = smaller((tile + 1) * rows_per_tile, rows);
    for (int64_t r = tile * rows_per_tile; r < end; ++r) {
      if (p.image.is_nhwc)
        scale_shift_each(x + r * n, y + r * n, n, scale, shift);
      else
        scale_shift(x + r * n, y + r * n, n, scale[r % p.image.channels], shift[r % p.image.channels]);
    }
  });
}

float add_lanes(v128_t v) {
  v = wasm_f32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1);
}

// sum of (x[i] - centre)^power over a row, power 1 or 2; f32 over 1024 elements at a time, those sums in
// double.
[[gnu::noinline]] double sum_row(const float* x, int64_t n, float centre, int power) {
  const v128_t middle = wasm_f32x4_splat(centre);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 1024) {
    const int64_t end = smaller(begin + 1024, n);
    v128_t sum = wasm_f32x4_const_splat(0.0f);
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) {
      const v128_t d = wasm_f32x4_sub(wasm_v128_load(x + i), middle);
      sum = wasm_f32x4_add(sum, power == 2 ? wasm_f32x4_mul(d, d) : d);
    }
    total += add_lanes(sum);
    for (; i < end; ++i) {
      const double d = x[i] - centre;
      total += power == 2 ? d * d : d;
    }
  }
  return total;
}

[[gnu::noinline]] void measure_row(const float* x, int64_t n, float* mean, float* variance) {
  const double count = static_cast<double>(n);
  *mean = static_cast<float>(sum_row(x, n, 0, 1) / count);
  *variance = static_cast<float>(sum_row(x, n, *mean, 2) / count);
}

// Up to four neighbouring channels of an NHWC image: statistics over rows `stride` apart, then scale and
// shift.
[[gnu::noinline]] void instance_norm_columns(const InstanceNormParams& p, const float* x, float* y, const float* scale,
                                             const float* bias, int width) {
  const size_t bytes = static_cast<size_t>(width) * sizeof(float);
  auto load = [&](const float* from) {
    if (width == 4) return wasm_v128_load(from);
    float lanes[4] = {};
    std::memcpy(lanes, from, bytes);
    return wasm_v128_load(lanes);
  };
  const int64_t stride = p.image.channels;
  const v128_t zero = wasm_f32x4_const_splat(0.0f);
  const v128_t count = wasm_f32x4_splat(static_cast<float>(p.image.inner));
  v128_t moments[2] = {zero, zero};  // mean, variance
  for (int power = 1; power <= 2; ++power) {
    v128_t total = zero;
    for (int64_t begin = 0; begin < p.image.inner; begin += 256) {
      v128_t sum = zero;
      for (int64_t i = begin; i < smaller(begin + 256, p.image.inner); ++i) {
        const v128_t d = wasm_f32x4_sub(load(x + i * stride), moments[0]);
        sum = wasm_f32x4_add(sum, power == 2 ? wasm_f32x4_mul(d, d) : d);
      }
      total = wasm_f32x4_add(total, sum);
    }
    moments[power - 1] = wasm_f32x4_div(total, count);
  }
  const v128_t deviation = wasm_f32x4_sqrt(wasm_f32x4_add(moments[1], wasm_f32x4_splat(p.epsilon)));
  const v128_t factor = wasm_f32x4_div(load(scale), deviation);
  const v128_t summand = load(bias);
  for (int64_t i = 0; i < p.image.inner; ++i) {
    const v128_t d = wasm_f32x4_sub(load(x + i * stride), moments[0]);
    float lanes[4];
    wasm_v128_store(lanes, f32x4_madd(d, factor, summand));
    std::memcpy(y + i * stride, lanes, bytes);
  }
}

void instance_norm_f32(const KernelArgs& args) {
  const auto& p = args.params_as<InstanceNormParams>();
  if (args.in[0].num_elements() == 0) return;
  const float* x = args.in[0].as<float>();
  const float* scale = args.in[1].as<float>();
  const float* bias = args.in[2].as<float>();
  float* y = args.out[0].as<float>();
  if (p.image.is_nhwc) {
    const int64_t chunks = (int64_t{p.image.channels} + 3) / 4;
    parallel_for(args.parallel, static_cast<int>(p.image.outer * chunks), [&](int tile, int) {
      const int64_t c = tile % chunks * 4;
      const int64_t at = tile / chunks * p.image.inner * p.image.channels + c;
      instance_norm_columns(p, x + at, y + at, scale + c, bias + c, static_cast<int>(smaller(4, p.image.channels - c)));
    });
    return;
  }
  parallel_for(args.parallel, p.image.outer * p.image.channels, [&](int tile, int) {
    const int64_t c = tile % p.image.channels;
    const float* row = x + int64_t{tile} * p.image.inner;
    float mean, variance;
    measure_row(row, p.image.inner, &mean, &variance);
    const float factor = scale[c] / std::sqrt(variance + p.epsilon);
    scale_shift(row, y + int64_t{tile} * p.image.inner, p.image.inner, factor, bias[c] - mean * factor);
  });
}

void layer_norm_f32(const KernelArgs& args) {
  const auto& p = args.params_as<LayerNormParams>();
  if (args.in[0].num_elements() == 0) return;
  const float* x = args.in[0].as<float>();
  const float* scale = args.in[1].as<float>();
  const float* bias = args.num_in > 2 && args.in[2].present() ? args.in[2].as<float>() : nullptr;
  float* y = args.out[0].as<float>();
  float* means = args.num_out > 1 && args.out[1].present() ? args.out[1].as<float>() : nullptr;
  float* factors = args.num_out > 2 && args.out[2].present() ? args.out[2].as<float>() : nullptr;
  const int64_t rows_per_tile = p.n < kTile ? kTile / (p.n + 1) + 1 : 1;
  parallel_for(args.parallel, static_cast<int>((p.rows + rows_per_tile - 1) / rows_per_tile), [&](int tile, int) {
    const int64_t end = smaller((tile + 1) * rows_per_tile, p.rows);
    for (int64_t r = tile * rows_per_tile; r < end; ++r) {
      const float* from = x + r * p.n;
      float* to = y + r * p.n;
      float mean, variance;
      measure_row(from, p.n, &mean, &variance);
      const float factor = 1 / std::sqrt(variance + p.epsilon);
      scale_shift(from, to, p.n, factor, -mean * factor);
      if (bias != nullptr) {
        scale_shift_each(to, to, p.n, scale, bias);
      } else {
        for (int64_t i = 0; i < p.n; ++i) to[i] *= scale[i];
      }
      if (means != nullptr) means[r] = mean;
      if (factors != nullptr) factors[r] = factor;
    }
  });
}

// x / base^beta; -0.75 by two square roots.
[[gnu::noinline]] v128_t lrn_value(const LrnParams& p, v128_t x, v128_t sum) {
  const v128_t base = f32x4_madd(sum, wasm_f32x4_splat(p.alpha / static_cast<float>(p.size)), wasm_f32x4_splat(p.bias));
  if (p.beta == 0.75f) {
    const v128_t root = wasm_f32x4_sqrt(base);
    return wasm_f32x4_div(x, wasm_f32x4_mul(root, wasm_f32x4_sqrt(root)));
  }
  return wasm_f32x4_mul(x, exp_f32x4(wasm_f32x4_mul(log_f32x4(base), wasm_f32x4_splat(-p.beta))));
}

// One channel of one sample: rows of `inner` in NCHW; in NHWC one value a pixel, so that four pixels are
// gathered.
void lrn_f32(const KernelArgs& args) {
  const auto& p = args.params_as<LrnParams>();
  if (args.in[0].num_elements() == 0) return;
  const int64_t channel_stride = p.image.is_nhwc ? 1 : p.image.inner;
  const int64_t stride = p.image.is_nhwc ? p.image.channels : 1;
  parallel_for(args.parallel, p.image.outer * p.image.channels, [&](int tile, int) {
    const int32_t c = tile % p.image.channels;
    const int64_t base = int64_t{tile / p.image.channels} * p.image.channels * p.image.inner;
    const float* x = args.in[0].as<float>() + base;
    float* y = args.out[0].as<float>() + base;
    int32_t begin, end;
    lrn_window(p, c, &begin, &end);
    auto load = [&](int64_t channel, int64_t i, int64_t width) {
      const float* from = x + channel * channel_stride + i * stride;
      if (width == 4 && stride == 1) return wasm_v128_load(from);
      float lanes[4] = {};
      for (int64_t k = 0; k < width; ++k) lanes[k] = from[k * stride];
      return wasm_v128_load(lanes);
    };
    for (int64_t i = 0; i < p.image.inner; i += 4) {
      const int64_t width = smaller(4, p.image.inner - i);
      v128_t sum = wasm_f32x4_const_splat(0.0f);
      for (int32_t k = begin; k < end; ++k) {
        const v128_t v = load(k, i, width);
        sum = f32x4_madd(v, v, sum);
      }
      float lanes[4];
      wasm_v128_store(lanes, lrn_value(p, load(c, i, width), sum));
      for (int64_t k = 0; k < width; ++k) y[c * channel_stride + (i + k) * stride] = lanes[k];
    }
  });
}

const char* const kOperands = "wrong number of operands, parameters or dtypes";

// All operands dense floats (f32 for the kernels without _any), operand 0 and output 0 of one size.
[[gnu::noinline]] const char* norm_problem(const KernelArgs& args, size_t params_bytes, int min_in, int max_in,
                                           int max_out, bool only_f32) {
  if (args.params_bytes != params_bytes || args.num_in < min_in || args.num_in > max_in || args.num_out < 1 ||
      args.num_out > max_out || !args.out[0].present()) {
    return kOperands;
  }
  for (int i = 0; i < args.num_in + args.num_out; ++i) {
    const TensorRef& operand = i < args.num_in ? args.in[i] : args.out[i - args.num_in];
    if (!operand.present() && i >= min_in) continue;
    if (const char* what = layout_problem(operand, false)) return what;
    if (!is_float(operand.dtype) || (only_f32 && operand.dtype != DType::kF32)) return kOperands;
  }
  return args.in[0].num_elements() == args.out[0].num_elements() ? nullptr : "input and output differ in size";
}

// Operands [first, last] that are present have `count` elements each.
[[gnu::noinline]] const char* vectors_problem(const TensorRef* operands, int first, int last, int64_t count) {
  for (int i = first; i <= last; ++i) {
    if (operands[i].present() && operands[i].num_elements() != count) return "a vector has the wrong size";
  }
  return nullptr;
}

// (outer, channels, inner) as the operand has it; few enough of them to number them.
[[gnu::noinline]] const char* image_problem(const KernelArgs& args, const ImageSplit& image) {
  if (const char* what = split_problem(args.in[0].num_elements(), image.outer, image.channels, image.inner))
    return what;
  const bool few =
      int64_t{image.outer} * image.channels <= INT32_MAX && int64_t{image.outer} * image.inner <= INT32_MAX;
  return few ? nullptr : "image is too large";
}

const char* batch_norm_any_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(BatchNormParams), 5, 5, 3, false)) return what;
  const auto& p = args.params_as<BatchNormParams>();
  if (const char* what = image_problem(args, p.image)) return what;
  if (const char* what = vectors_problem(args.in, 1, 4, p.image.channels)) return what;
  return vectors_problem(args.out, 1, args.num_out - 1, p.image.channels);
}

const char* batch_norm_f32_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(BatchNormParams), 5, 5, 1, true)) return what;
  const auto& p = args.params_as<BatchNormParams>();
  if (p.training != 0) return "batch_norm_f32 does not train";
  if (p.image.channels < 0 || args.scratch_bytes < static_cast<size_t>(p.image.channels) * 2 * sizeof(float)) {
    return "scratch is too small";
  }
  return batch_norm_any_problem(args);
}

const char* instance_norm_any_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(InstanceNormParams), 3, 3, 1, false)) return what;
  const auto& p = args.params_as<InstanceNormParams>();
  if (const char* what = image_problem(args, p.image)) return what;
  return vectors_problem(args.in, 1, 2, p.image.channels);
}

const char* instance_norm_f32_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(InstanceNormParams), 3, 3, 1, true)) return what;
  return instance_norm_any_problem(args);
}

const char* layer_norm_any_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(LayerNormParams), 2, 3, 3, false)) return what;
  const auto& p = args.params_as<LayerNormParams>();
  if (const char* what = split_problem(args.in[0].num_elements(), p.rows, p.n, 1)) return what;
  if (const char* what = vectors_problem(args.in, 1, args.num_in - 1, p.n)) return what;
  return vectors_problem(args.out, 1, args.num_out - 1, p.rows);
}

const char* layer_norm_f32_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(LayerNormParams), 2, 3, 3, true)) return what;
  return layer_norm_any_problem(args);
}

const char* lrn_any_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(LrnParams), 1, 1, 1, false)) return what;
  const auto& p = args.params_as<LrnParams>();
  return p.size < 1 ? "LRN over no channels" : image_problem(args, p.image);
}

const char* lrn_f32_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(LrnParams), 1, 1, 1, true)) return what;
  return lrn_any_problem(args);
}

const char* mean_variance_norm_any_problem(const KernelArgs& args) {
  if (const char* what = norm_problem(args, sizeof(MeanVarianceNormParams), 1, 1, 1, false)) return what;
  const int32_t mask = args.params_as<MeanVarianceNormParams>().axes_mask;
  return mask < 0 || mask >= 1 << args.in[0].rank ? "normalisation over an axis that does not exist" : nullptr;
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"batch_norm_f32", batch_norm_f32, check_by<batch_norm_f32_problem>, false, false},
      {"batch_norm_any", batch_norm_any, check_by<batch_norm_any_problem>, false, false},
      {"instance_norm_f32", instance_norm_f32, check_by<instance_norm_f32_problem>, false, false},
      {"instance_norm_any", instance_norm_any, check_by<instance_norm_any_problem>, false, false},
      {"layer_norm_f32", layer_norm_f32, check_by<layer_norm_f32_problem>, false, false},
      {"layer_norm_any", layer_norm_any, check_by<layer_norm_any_problem>, false, false},
      {"lrn_f32", lrn_f32, check_by<lrn_f32_problem>, false, false},
      {"lrn_any", lrn_any, check_by<lrn_any_problem>, false, false},
      {"mean_variance_norm_any", mean_variance_norm_any, check_by<mean_variance_norm_any_problem>, false, false},
  };
  return kKernels;
}

}  // namespace kiln::ops::norm
