// Three passes over each row: the largest, the exponentials with their sum, the division (or the logarithm).
#include <cmath>

#include "cpu/broadcast.h"
#include "cpu/vector_math.h"
#include "ops/kernel.h"
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

// inner == 1: one dense row of n.
void softmax_row(const float* x, float* y, int64_t n, bool is_log) {
  v128_t max4 = wasm_f32x4_splat(-INFINITY);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) max4 = wasm_f32x4_max(max4, wasm_v128_load(x + i));
  for (; i < n; ++i) max4 = wasm_f32x4_max(max4, wasm_f32x4_splat(x[i]));
  const v128_t max = wasm_f32x4_splat(max_lane(max4));

  v128_t sum4 = wasm_f32x4_const_splat(0.0f);
  for (i = 0; i + 4 <= n; i += 4) {
    const v128_t shifted = wasm_f32x4_sub(wasm_v128_load(x + i), max);
    const v128_t e = exp_f32x4(shifted);
    sum4 = wasm_f32x4_add(sum4, e);
    wasm_v128_store(y + i, is_log ? shifted : e);
  }
  float sum = add_lanes(sum4);
  for (; i < n; ++i) {
    const v128_t shifted = wasm_f32x4_sub(wasm_f32x4_splat(x[i]), max);
    const float e = wasm_f32x4_extract_lane(exp_f32x4(shifted), 0);
    sum += e;
    y[i] = is_log ? wasm_f32x4_extract_lane(shifted, 0) : e;
  }

  const float scalar = is_log ? -std::log(sum) : 1 / sum;
  const v128_t scalar4 = wasm_f32x4_splat(scalar);
  for (i = 0; i + 4 <= n; i += 4) {
    const v128_t v = wasm_v128_load(y + i);
    wasm_v128_store(y + i, is_log ? wasm_f32x4_add(v, scalar4) : wasm_f32x4_mul(v, scalar4));
  }
  for (; i < n; ++i) y[i] = is_log ? y[i] + scalar : y[i] * scalar;
}

// Four neighbouring columns (fewer at the edge), each a softmax over n elements `stride` apart.
template <typename Load, typename Store>
void softmax_columns(const float* x, float* y, int64_t n, int64_t stride, bool is_log, Load load,
                     Store store) {
  v128_t max = wasm_f32x4_splat(-INFINITY);
  for (int64_t i = 0; i < n; ++i) max = wasm_f32x4_max(max, load(x + i * stride));
  v128_t sum = wasm_f32x4_const_splat(0.0f);
  for (int64_t i = 0; i < n; ++i) {
    const v128_t shifted = wasm_f32x4_sub(load(x + i * stride), max);
    const v128_t e = exp_f32x4(shifted);
    sum = wasm_f32x4_add(sum, e);
    store(y + i * stride, is_log ? shifted : e);
  }
  const v128_t scalar = is_log ? log_f32x4(sum) : wasm_f32x4_div(wasm_f32x4_const_splat(1.0f), sum);
  for (int64_t i = 0; i < n; ++i) {
    const v128_t v = load(y + i * stride);
    store(y + i * stride, is_log ? wasm_f32x4_sub(v, scalar) : wasm_f32x4_mul(v, scalar));
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
      for (int64_t o = tile * rows; o < end; ++o)
        softmax_row(x + o * p.axis, y + o * p.axis, p.axis, p.is_log != 0);
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
    for (; i + 4 <= end; i += 4) {
      softmax_columns(
          x + base + i, y + base + i, p.axis, p.inner, p.is_log != 0,
          [](const float* q) { return wasm_v128_load(q); },
          [](float* q, v128_t v) { wasm_v128_store(q, v); });
    }
    for (; i < end; ++i) {
      softmax_columns(
          x + base + i, y + base + i, p.axis, p.inner, p.is_log != 0,
          [](const float* q) { return wasm_f32x4_splat(*q); },
          [](float* q, v128_t v) { *q = wasm_f32x4_extract_lane(v, 0); });
    }
  });
}

Status check_softmax(const KernelArgs& args) {
  KILN_TRY(check_params<SoftmaxParams>(args));
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layout(args.in[0], false));
  KILN_TRY(check_layout(args.out[0], false));
  const auto& p = args.params_as<SoftmaxParams>();
  if (!is_float(args.in[0].dtype) || args.in[0].dtype != args.out[0].dtype) {
    return {Code::kCorrupt, "softmax: dtypes do not match"};
  }
  const int64_t elements = args.in[0].num_elements();
  if (elements != args.out[0].num_elements())
    return {Code::kCorrupt, "softmax: input and output differ in size"};
  return check_split(elements, p.outer, p.axis, p.inner);
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"softmax_f32", softmax_f32, check_softmax, false, false}};
  return kKernels;
}

}  // namespace kiln::ops::softmax
