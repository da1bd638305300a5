// Three passes over each row: the largest, the exponentials with their sum, the division (or the logarithm).
#include <cmath>

#include "cpu/broadcast.h"
#include "cpu/vector_math.h"
#include "ops/kernel_checks.h"
#include "ops/softmax/softmax.h"

namespace kiln::ops::softmax {

void softmax_reference(const KernelArgs& args);

namespace {

float max_lane(v128_t v) {
  v = wasm_f32x4_max(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(wasm_f32x4_max(v, wasm_i32x4_shuffle(v, v, 1, 0, 3, 2)), 0);
}

float add_lanes(v128_t v) {
  v = wasm_f32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1);
}

// y[i] = e^(x[i] - max) for n elements, n a multiple of 4; the sums in four lanes.
[[gnu::noinline]] v128_t exp_row(const float* x, float* y, int64_t n, v128_t max) {
  v128_t sum = wasm_f32x4_const_splat(0.0f);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; i += 4) {
    const v128_t e = exp_flushed_f32x4(wasm_f32x4_sub(wasm_v128_load(x + i), max));
    sum = wasm_f32x4_add(sum, e);
    wasm_v128_store(y + i, e);
  }
  return sum;
}

// inner == 1: one dense row of n, the tail padded with -inf, whose exponential is 0.
[[gnu::noinline]] void softmax_row(const float* x, float* y, int64_t n, bool is_log) {
  const int64_t whole = n & ~int64_t{3};
  float tail[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  float tail_exp[4];
  for (int64_t i = whole; i < n; ++i) tail[i - whole] = x[i];
  v128_t max4 = wasm_v128_load(tail);
#pragma GCC unroll 1
  for (int64_t i = 0; i < whole; i += 4) max4 = wasm_f32x4_max(max4, wasm_v128_load(x + i));
  const float max = max_lane(max4);
  const v128_t max_splat = wasm_f32x4_splat(max);
  v128_t sum4 = exp_row(x, y, whole, max_splat);
  if (n > whole) sum4 = wasm_f32x4_add(sum4, exp_row(tail, tail_exp, 4, max_splat));
  const float sum = add_lanes(sum4);
  if (is_log) {
    const float log_sum = std::log(sum);
#pragma GCC unroll 1
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - max - log_sum;
    return;
  }
  const v128_t factor = wasm_f32x4_splat(1 / sum);
#pragma GCC unroll 1
  for (int64_t i = 0; i < whole; i += 4) wasm_v128_store(y + i, wasm_f32x4_mul(wasm_v128_load(y + i), factor));
  for (int64_t i = whole; i < n; ++i) y[i] = tail_exp[i - whole] * (1 / sum);
}

// Many dense rows of n = 4 * kVectors, as the heads of detectors have them: all of a row in registers.
template <int kVectors>
[[gnu::noinline]] void softmax_short_rows(const float* x, float* y, int64_t num_rows) {
  for (int64_t row = 0; row < num_rows; ++row) {
    v128_t v[kVectors];
    KILN_UNROLL
    for (int i = 0; i < kVectors; ++i) v[i] = wasm_v128_load(x + 4 * i);
    v128_t max4 = v[0];
    KILN_UNROLL
    for (int i = 1; i < kVectors; ++i) max4 = wasm_f32x4_max(max4, v[i]);
    max4 = wasm_f32x4_max(max4, wasm_i32x4_shuffle(max4, max4, 2, 3, 0, 1));
    max4 = wasm_f32x4_max(max4, wasm_i32x4_shuffle(max4, max4, 1, 0, 3, 2));
    v128_t sum4 = wasm_f32x4_const_splat(0.0f);
    KILN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      v[i] = exp_flushed_f32x4(wasm_f32x4_sub(v[i], max4));
      sum4 = wasm_f32x4_add(sum4, v[i]);
    }
    const v128_t factor = wasm_f32x4_splat(1 / add_lanes(sum4));
    KILN_UNROLL
    for (int i = 0; i < kVectors; ++i) wasm_v128_store(y + 4 * i, wasm_f32x4_mul(v[i], factor));
    x += 4 * kVectors;
    y += 4 * kVectors;
  }
}

// Four neighbouring columns, each a softmax over n elements `stride` apart.
[[gnu::noinline]] void softmax_columns(const float* x, float* y, int64_t n, int64_t stride, bool is_log) {
  v128_t max = wasm_f32x4_splat(-INFINITY);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) max = wasm_f32x4_max(max, wasm_v128_load(x + i * stride));
  v128_t sum = wasm_f32x4_const_splat(0.0f);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) {
    const v128_t e = exp_flushed_f32x4(wasm_f32x4_sub(wasm_v128_load(x + i * stride), max));
    sum = wasm_f32x4_add(sum, e);
    wasm_v128_store(y + i * stride, e);
  }
  if (is_log) {
    const v128_t log_sum = log_f32x4(sum);
#pragma GCC unroll 1
    for (int64_t i = 0; i < n; ++i) {
      const v128_t shifted = wasm_f32x4_sub(wasm_v128_load(x + i * stride), max);
      wasm_v128_store(y + i * stride, wasm_f32x4_sub(shifted, log_sum));
    }
    return;
  }
  const v128_t factor = wasm_f32x4_div(wasm_f32x4_const_splat(1.0f), sum);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) {
    wasm_v128_store(y + i * stride, wasm_f32x4_mul(wasm_v128_load(y + i * stride), factor));
  }
}

// One column, where fewer than four are left; the same arithmetic.
[[gnu::noinline]] void softmax_column(const float* x, float* y, int64_t n, int64_t stride, bool is_log) {
  float max = x[0];
  for (int64_t i = 1; i < n; ++i) max = x[i * stride] > max || std::isnan(x[i * stride]) ? x[i * stride] : max;
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i * stride] = scalar_f32<exp_flushed_f32x4>(x[i * stride] - max);
  const float log_sum = is_log ? scalar_f32<log_f32x4>(sum) : 0;
  for (int64_t i = 0; i < n; ++i) {
    y[i * stride] = is_log ? x[i * stride] - max - log_sum : y[i * stride] * (1 / sum);
  }
}

void softmax_f32(const KernelArgs& args) {
  const auto& p = args.params_as<SoftmaxParams>();
  if (args.in[0].num_elements() == 0) return;
  if (args.in[0].dtype != DType::kF32) return softmax_reference(args);
  const float* x = args.in[0].as<float>();
  float* y = args.out[0].as<float>();
  constexpr int64_t kTile = 16 * 1024;
  if (p.inner == 1) {
    const int64_t rows = p.axis < kTile ? kTile / p.axis : 1;
    parallel_for(args.parallel, static_cast<int>((p.outer + rows - 1) / rows), [&](int tile, int) {
      const int64_t end = (tile + 1) * rows < p.outer ? (tile + 1) * rows : p.outer;
      if (p.axis == 16 && p.is_log == 0)
        return softmax_short_rows<4>(x + tile * rows * 16, y + tile * rows * 16, end - tile * rows);
      for (int64_t o = tile * rows; o < end; ++o) softmax_row(x + o * p.axis, y + o * p.axis, p.axis, p.is_log != 0);
    });
    return;
  }
  constexpr int64_t kColumns = 256;
  const int64_t chunks = (p.inner + kColumns - 1) / kColumns;
  parallel_for(args.parallel, static_cast<int>(p.outer * chunks), [&](int tile, int) {
    const int64_t base = tile / chunks * p.axis * p.inner;
    const int64_t begin = tile % chunks * kColumns;
    const int64_t end = begin + kColumns < p.inner ? begin + kColumns : p.inner;
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) softmax_columns(x + base + i, y + base + i, p.axis, p.inner, p.is_log != 0);
    for (; i < end; ++i) softmax_column(x + base + i, y + base + i, p.axis, p.inner, p.is_log != 0);
  });
}

const char* softmax_problem(const KernelArgs& args) {
  if (args.params_bytes != sizeof(SoftmaxParams) || args.num_in != 1 || args.num_out != 1) {
    return "softmax takes one input";
  }
  if (const char* what = layout_problem(args.in[0], false)) return what;
  if (const char* what = layout_problem(args.out[0], false)) return what;
  const auto& p = args.params_as<SoftmaxParams>();
  if (!is_float(args.in[0].dtype) || args.in[0].dtype != args.out[0].dtype) return "softmax: dtypes do not match";
  const int64_t elements = args.in[0].num_elements();
  if (elements != args.out[0].num_elements()) return "softmax: input and output differ in size";
  return split_problem(elements, p.outer, p.axis, p.inner);
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"softmax_f32", softmax_f32, check_by<softmax_problem>, false, false}};
  return kKernels;
}

}  // namespace kiln::ops::softmax
