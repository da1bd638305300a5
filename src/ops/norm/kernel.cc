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
void scale_shift(const float* x, float* y, int64_t n, float scale, float shift) {
  const v128_t a = wasm_f32x4_splat(scale);
  const v128_t b = wasm_f32x4_splat(shift);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) wasm_v128_store(y + i, f32x4_madd(wasm_v128_load(x + i), a, b));
  for (; i < n; ++i) y[i] = f32_madd(x[i], scale, shift);
}

// y[i] = x[i] * scale[i] + shift[i]
void scale_shift_each(const float* x, float* y, int64_t n, const float* scale, const float* shift) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    wasm_v128_store(y + i,
                    f32x4_madd(wasm_v128_load(x + i), wasm_v128_load(scale + i), wasm_v128_load(shift + i)));
  }
  for (; i < n; ++i) y[i] = f32_madd(x[i], scale[i], shift[i]);
}

// Folds the five operands into a factor and a summand a channel, then runs along rows.
void batch_norm_f32(const KernelArgs& args) {
  const auto& p = args.params_as<BatchNormParams>();
  const float* x = args.in[0].as<float>();
  float* y = args.out[0].as<float>();
  float* scale = static_cast<float*>(args.scratch);
  float* shift = scale + p.channels;
  for (int32_t c = 0; c < p.channels; ++c) {
    const double variance = static_cast<double>(args.in[4].as<float>()[c]) + p.epsilon;
    const double factor = args.in[1].as<float>()[c] / std::sqrt(variance);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(args.in[2].as<float>()[c] - args.in[3].as<float>()[c] * factor);
  }
  const int64_t n = p.is_nhwc ? p.channels : p.inner;
  const int64_t rows = int64_t{p.outer} * (p.is_nhwc ? p.inner : p.channels);
  const int64_t rows_per_tile = n < kTile ? kTile / (n + 1) + 1 : 1;
  parallel_for(args.parallel, static_cast<int>((rows + rows_per_tile - 1) / rows_per_tile),
               [&](int tile, int) {
                 const int64_t end = smaller((tile + 1) * rows_per_tile, rows);
                 for (int64_t r = tile * rows_per_tile; r < end; ++r) {
                   if (p.is_nhwc)
                     scale_shift_each(x + r * n, y + r * n, n, scale, shift);
                   else
                     scale_shift(x + r * n, y + r * n, n, scale[r % p.channels], shift[r % p.channels]);
                 }
               });
}

float add_lanes(v128_t v) {
  v = wasm_f32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1);
}

// sum of (x[i] - centre)^power over a row, power 1 or 2; f32 over 1024 elements at a time, those sums in
// double.
double sum_row(const float* x, int64_t n, float centre, int power) {
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

void measure_row(const float* x, int64_t n, float* mean, float* variance) {
  const double count = static_cast<double>(n);
  *mean = static_cast<float>(sum_row(x, n, 0, 1) / count);
  *variance = static_cast<float>(sum_row(x, n, *mean, 2) / count);
}

// Up to four neighbouring channels of an NHWC image: statistics over rows `stride` apart, then scale and
// shift.
void instance_norm_columns(const InstanceNormParams& p, const float* x, float* y, const float* scale,
                           const float* bias, int width) {
  const size_t bytes = static_cast<size_t>(width) * sizeof(float);
  auto load = [&](const float* from) {
    if (width == 4) return wasm_v128_load(from);
    float lanes[4] = {};
    std::memcpy(lanes, from, bytes);
    return wasm_v128_load(lanes);
  };
  const int64_t stride = p.channels;
  const v128_t zero = wasm_f32x4_const_splat(0.0f);
  const v128_t count = wasm_f32x4_splat(static_cast<float>(p.inner));
  v128_t moments[2] = {zero, zero};  // mean, variance
  for (int power = 1; power <= 2; ++power) {
    v128_t total = zero;
    for (int64_t begin = 0; begin < p.inner; begin += 256) {
      v128_t sum = zero;
      for (int64_t i = begin; i < smaller(begin + 256, p.inner); ++i) {
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
  for (int64_t i = 0; i < p.inner; ++i) {
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
  if (p.is_nhwc) {
    const int64_t chunks = (int64_t{p.channels} + 3) / 4;
    parallel_for(args.parallel, static_cast<int>(p.outer * chunks), [&](int tile, int) {
      const int64_t c = tile % chunks * 4;
      const int64_t at = tile / chunks * p.inner * p.channels + c;
      instance_norm_columns(p, x + at, y + at, scale + c, bias + c,
                            static_cast<int>(smaller(4, p.channels - c)));
    });
    return;
  }
  parallel_for(args.parallel, p.outer * p.channels, [&](int tile, int) {
    const int64_t c = tile % p.channels;
    const float* row = x + int64_t{tile} * p.inner;
    float mean, variance;
    measure_row(row, p.inner, &mean, &variance);
    const float factor = scale[c] / std::sqrt(variance + p.epsilon);
    scale_shift(row, y + int64_t{tile} * p.inner, p.inner, factor, bias[c] - mean * factor);
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
  parallel_for(args.parallel, static_cast<int>((p.rows + rows_per_tile - 1) / rows_per_tile),
               [&](int tile, int) {
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
v128_t lrn_value(const LrnParams& p, v128_t x, v128_t sum) {
  const v128_t base =
      f32x4_madd(sum, wasm_f32x4_splat(p.alpha / static_cast<float>(p.size)), wasm_f32x4_splat(p.bias));
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
  const int64_t channel_stride = p.is_nhwc ? 1 : p.inner;
  const int64_t stride = p.is_nhwc ? p.channels : 1;
  parallel_for(args.parallel, p.outer * p.channels, [&](int tile, int) {
    const int32_t c = tile % p.channels;
    const int64_t base = int64_t{tile / p.channels} * p.channels * p.inner;
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
    for (int64_t i = 0; i < p.inner; i += 4) {
      const int64_t width = smaller(4, p.inner - i);
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

// Operand 0 and output 0 alike, all dense floats; `only_f32` as the kernels without _any want it.
Status check_norm(const KernelArgs& args, bool only_f32) {
  if (args.num_in < 1 || args.num_out < 1 || !args.in[0].present() || !args.out[0].present()) {
    return corrupt("normalisation without operands");
  }
  for (int i = 0; i < args.num_in + args.num_out; ++i) {
    const TensorRef& operand = i < args.num_in ? args.in[i] : args.out[i - args.num_in];
    if (!operand.present()) continue;
    KILN_TRY(check_layout(operand, false));
    if (!is_float(operand.dtype) || (only_f32 && operand.dtype != DType::kF32))
      return corrupt("dtype is not supported");
  }
  if (args.in[0].num_elements() != args.out[0].num_elements())
    return corrupt("input and output differ in size");
  return {};
}

// Operands [first, last] have `count` elements each.
Status check_vectors(const KernelArgs& args, int first, int last, int64_t count) {
  for (int i = first; i <= last; ++i) {
    if (!args.in[i].present() || args.in[i].num_elements() != count)
      return corrupt("a vector has the wrong size");
  }
  return {};
}

// (outer, channels, inner) as the operand has it; few enough of them to number them.
template <typename P>
Status check_image(const KernelArgs& args, const P& p) {
  KILN_TRY(check_split(args.in[0].num_elements(), p.outer, p.channels, p.inner));
  if (int64_t{p.outer} * p.channels > INT32_MAX || int64_t{p.outer} * p.inner > INT32_MAX) {
    return corrupt("image is too large");
  }
  return {};
}

Status check_batch_norm(const KernelArgs& args, bool only_f32) {
  KILN_TRY(check_params<BatchNormParams>(args));
  KILN_TRY(check_norm(args, only_f32));
  const auto& p = args.params_as<BatchNormParams>();
  if (args.num_in != 5 || args.num_out > 3) return corrupt("batch_norm takes five inputs");
  KILN_TRY(check_image(args, p));
  KILN_TRY(check_vectors(args, 1, 4, p.channels));
  for (int i = 1; i < args.num_out; ++i) {
    if (args.out[i].present() && args.out[i].num_elements() != p.channels)
      return corrupt("an output has the wrong size");
  }
  return {};
}

Status check_batch_norm_f32(const KernelArgs& args) {
  KILN_TRY(check_batch_norm(args, true));
  const auto& p = args.params_as<BatchNormParams>();
  if (args.num_out != 1 || p.training != 0) return corrupt("batch_norm_f32 has one output");
  if (args.scratch_bytes < static_cast<size_t>(p.channels) * 2 * sizeof(float))
    return corrupt("scratch is too small");
  return {};
}

Status check_batch_norm_any(const KernelArgs& args) { return check_batch_norm(args, false); }

Status check_instance_norm(const KernelArgs& args, bool only_f32) {
  KILN_TRY(check_params<InstanceNormParams>(args));
  KILN_TRY(check_norm(args, only_f32));
  const auto& p = args.params_as<InstanceNormParams>();
  if (args.num_in != 3 || args.num_out != 1) return corrupt("instance_norm takes three inputs");
  KILN_TRY(check_image(args, p));
  return check_vectors(args, 1, 2, p.channels);
}

Status check_instance_norm_f32(const KernelArgs& args) { return check_instance_norm(args, true); }
Status check_instance_norm_any(const KernelArgs& args) { return check_instance_norm(args, false); }

Status check_layer_norm(const KernelArgs& args, bool only_f32) {
  KILN_TRY(check_params<LayerNormParams>(args));
  KILN_TRY(check_norm(args, only_f32));
  const auto& p = args.params_as<LayerNormParams>();
  if (args.num_in < 2 || args.num_in > 3 || args.num_out > 3)
    return corrupt("layer_norm takes two or three inputs");
  KILN_TRY(check_split(args.in[0].num_elements(), p.rows, p.n, 1));
  KILN_TRY(check_vectors(args, 1, 1, p.n));
  if (args.num_in > 2 && args.in[2].present()) KILN_TRY(check_vectors(args, 2, 2, p.n));
  for (int i = 1; i < args.num_out; ++i) {
    if (args.out[i].present() && args.out[i].num_elements() != p.rows)
      return corrupt("an output has the wrong size");
  }
  return {};
}

Status check_layer_norm_f32(const KernelArgs& args) { return check_layer_norm(args, true); }
Status check_layer_norm_any(const KernelArgs& args) { return check_layer_norm(args, false); }

Status check_lrn(const KernelArgs& args, bool only_f32) {
  KILN_TRY(check_params<LrnParams>(args));
  KILN_TRY(check_norm(args, only_f32));
  const auto& p = args.params_as<LrnParams>();
  if (args.num_in != 1 || args.num_out != 1) return corrupt("lrn takes one input");
  if (p.size < 1) return corrupt("lrn over no channels");
  return check_image(args, p);
}

Status check_lrn_f32(const KernelArgs& args) { return check_lrn(args, true); }
Status check_lrn_any(const KernelArgs& args) { return check_lrn(args, false); }

Status check_mean_variance_norm(const KernelArgs& args) {
  KILN_TRY(check_params<MeanVarianceNormParams>(args));
  KILN_TRY(check_norm(args, false));
  const int32_t mask = args.params_as<MeanVarianceNormParams>().axes_mask;
  if (args.num_in != 1 || args.num_out != 1) return corrupt("mean_variance_norm takes one input");
  if (mask < 0 || mask >= 1 << args.in[0].rank)
    return corrupt("normalisation over an axis that does not exist");
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"batch_norm_f32", batch_norm_f32, check_batch_norm_f32, false, false},
      {"batch_norm_any", batch_norm_any, check_batch_norm_any, false, false},
      {"instance_norm_f32", instance_norm_f32, check_instance_norm_f32, false, false},
      {"instance_norm_any", instance_norm_any, check_instance_norm_any, false, false},
      {"layer_norm_f32", layer_norm_f32, check_layer_norm_f32, false, false},
      {"layer_norm_any", layer_norm_any, check_layer_norm_any, false, false},
      {"lrn_f32", lrn_f32, check_lrn_f32, false, false},
      {"lrn_any", lrn_any, check_lrn_any, false, false},
      {"mean_variance_norm_any", mean_variance_norm_any, check_mean_variance_norm, false, false},
  };
  return kKernels;
}

}  // namespace kiln::ops::norm
