// reduce_f32 sees every reduction as rows added to an accumulator row: columns of a block where something
// lies behind the reduced axes, else one long row cut into 4 to 64 lanes that a tree of halves joins. Every
// 64 rows the accumulator is emptied into a second one, which keeps sums of many elements accurate.
#include <cmath>

#include "cpu/broadcast.h"
#include "cpu/simd.h"
#include "ops/kernel_checks.h"
#include "ops/reduce/reduce.h"

namespace kiln::ops::reduce {

void reduce_any(const KernelArgs& args);
void arg_reduce_any(const KernelArgs& args);

namespace {

// acc[i] = f(acc[i], x[r * stride + i]) for each of `rows` rows and n columns.
using AccumulateFn = void (*)(float* acc, const float* x, int64_t rows, int64_t stride, int64_t n);

template <v128_t (*kFunction)(v128_t, v128_t)>
void accumulate(float* acc, const float* x, int64_t rows, int64_t stride, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    int64_t i = 0;
#pragma GCC unroll 1
    for (; i + 4 <= n; i += 4) wasm_v128_store(acc + i, kFunction(wasm_v128_load(acc + i), wasm_v128_load(x + i)));
    for (; i < n; ++i) {
      acc[i] = wasm_f32x4_extract_lane(kFunction(wasm_f32x4_splat(acc[i]), wasm_f32x4_splat(x[i])), 0);
    }
  }
}

v128_t add(v128_t acc, v128_t x) { return wasm_f32x4_add(acc, x); }
v128_t add_size(v128_t acc, v128_t x) { return wasm_f32x4_add(acc, wasm_f32x4_abs(x)); }
v128_t add_square(v128_t acc, v128_t x) { return wasm_f32x4_add(acc, wasm_f32x4_mul(x, x)); }
v128_t larger(v128_t acc, v128_t x) { return wasm_f32x4_max(acc, x); }
v128_t smaller(v128_t acc, v128_t x) { return wasm_f32x4_min(acc, x); }
v128_t multiply(v128_t acc, v128_t x) { return wasm_f32x4_mul(acc, x); }

struct Steps {
  AccumulateFn take;  // elements into an accumulator
  AccumulateFn join;  // accumulators into another
  float start;
};

Steps find_steps(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return {accumulate<larger>, accumulate<larger>, -INFINITY};
    case ReduceOp::kMin:
      return {accumulate<smaller>, accumulate<smaller>, INFINITY};
    case ReduceOp::kProd:
      return {accumulate<multiply>, accumulate<multiply>, 1};
    case ReduceOp::kL1:
      return {accumulate<add_size>, accumulate<add>, 0};
    case ReduceOp::kL2:
    case ReduceOp::kSumSquare:
      return {accumulate<add_square>, accumulate<add>, 0};
    default:
      return {accumulate<add>, accumulate<add>, 0};
  }
}

constexpr int64_t kColumns = 256;
constexpr int64_t kRowsBetweenJoins = 64;

[[gnu::noinline]] void fill(float* values, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) values[i] = value;
}

// total[i] for n <= kColumns columns of `rows` rows.
[[gnu::noinline]] void reduce_columns(const Steps& steps, const float* x, int64_t rows, int64_t stride, int64_t n,
                                      float* total) {
  fill(total, n, steps.start);
  if (rows <= kRowsBetweenJoins) return steps.take(total, x, rows, stride, n);
  float acc[kColumns];
  for (int64_t r = 0; r < rows; r += kRowsBetweenJoins) {
    const int64_t count = rows - r < kRowsBetweenJoins ? rows - r : kRowsBetweenJoins;
    fill(acc, n, steps.start);
    steps.take(acc, x + r * stride, count, stride, n);
    steps.join(total, acc, 1, 0, n);
  }
}

float reduce_row(const Steps& steps, const float* x, int64_t n) {
  float total[64];
  const int64_t lanes = n >= 256 ? 64 : (n >= 32 ? 16 : 4);
  reduce_columns(steps, x, n / lanes, lanes, lanes, total);
  steps.take(total, x + n / lanes * lanes, 1, 0, n % lanes);
  for (int64_t half = lanes / 2; half > 0; half /= 2) steps.join(total, total + half, 1, 0, half);
  return total[0];
}

float finish(ReduceOp op, float sum, int64_t count) {
  if (op == ReduceOp::kMean) return sum / static_cast<float>(count);
  if (op == ReduceOp::kL2) return std::sqrt(sum);
  return op == ReduceOp::kLogSum ? static_cast<float>(std::log(static_cast<double>(sum))) : sum;
}

void reduce_f32(const KernelArgs& args) {
  const auto& p = args.params_as<ReduceSplitParams>();
  const auto op = static_cast<ReduceOp>(p.op);
  const Steps steps = find_steps(op);
  const float* x = args.in[0].as<float>();
  float* y = args.out[0].as<float>();
  if (p.inner == 1) {
    const int64_t rows = 16 * 1024 / (int64_t{p.axis} + 1) + 1;
    parallel_for(args.parallel, static_cast<int>((p.outer + rows - 1) / rows), [&](int tile, int) {
      const int64_t end = (tile + 1) * rows < p.outer ? (tile + 1) * rows : p.outer;
      for (int64_t o = tile * rows; o < end; ++o) y[o] = finish(op, reduce_row(steps, x + o * p.axis, p.axis), p.axis);
    });
    return;
  }
  const int64_t chunks = (p.inner + kColumns - 1) / kColumns;
  parallel_for(args.parallel, static_cast<int>(p.outer * chunks), [&](int tile, int) {
    const int64_t outer = tile / chunks;
    const int64_t begin = tile % chunks * kColumns;
    const int64_t n = p.inner - begin < kColumns ? p.inner - begin : kColumns;
    float total[kColumns];
    reduce_columns(steps, x + outer * p.axis * p.inner + begin, p.axis, p.inner, n, total);
    for (int64_t i = 0; i < n; ++i) y[outer * p.inner + begin + i] = finish(op, total[i], p.axis);
  });
}

// The f32 form of arg_reduce_any where the axis is last.
void arg_reduce_row(const float* x, const ArgReduceParams& p, int64_t* out) {
  float best = x[0];
  int64_t index = 0;
  for (int64_t i = 1; i < p.axis; ++i) {
    const float value = x[i];
    if ((p.is_min ? value < best : value > best) || (p.select_last && value == best)) {
      best = value;
      index = i;
    }
  }
  *out = index;
}

// Columns of a block at once: the best values and their positions side by side.
void arg_reduce_columns(const float* x, const ArgReduceParams& p, int64_t n, int64_t* out) {
  float best[kColumns];
  float index[kColumns];  // exact up to 2^24, which the check ensures
  for (int64_t i = 0; i < n; ++i) {
    best[i] = x[i];
    index[i] = 0;
  }
  for (int64_t a = 1; a < p.axis; ++a) {
    const float* row = x + a * p.inner;
    const v128_t position = wasm_f32x4_splat(static_cast<float>(a));
    for (int64_t i = 0; i < n; i += 4) {
      const int64_t at = i + 4 <= n ? i : (n >= 4 ? n - 4 : 0);  // the last four overlap: taking them twice is harmless
      const v128_t value = wasm_v128_load(row + at);
      const v128_t old = wasm_v128_load(best + at);
      v128_t better = p.is_min ? wasm_f32x4_lt(value, old) : wasm_f32x4_gt(value, old);
      if (p.select_last) better = wasm_v128_or(better, wasm_f32x4_eq(value, old));
      wasm_v128_store(best + at, wasm_v128_bitselect(value, old, better));
      wasm_v128_store(index + at, wasm_v128_bitselect(position, wasm_v128_load(index + at), better));
    }
  }
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(index[i]);
}

void arg_reduce(const KernelArgs& args) {
  const auto& p = args.params_as<ArgReduceParams>();
  if (args.in[0].dtype != DType::kF32 || (p.inner > 1 && p.inner < 4) || p.axis > (1 << 24)) {
    return arg_reduce_any(args);
  }
  const float* x = args.in[0].as<float>();
  int64_t* y = args.out[0].as<int64_t>();
  if (p.inner == 1) {
    const int64_t rows = 16 * 1024 / (int64_t{p.axis} + 1) + 1;
    parallel_for(args.parallel, static_cast<int>((p.outer + rows - 1) / rows), [&](int tile, int) {
      const int64_t end = (tile + 1) * rows < p.outer ? (tile + 1) * rows : p.outer;
      for (int64_t o = tile * rows; o < end; ++o) arg_reduce_row(x + o * p.axis, p, y + o);
    });
    return;
  }
  const int64_t chunks = (p.inner + kColumns - 1) / kColumns;
  parallel_for(args.parallel, static_cast<int>(p.outer * chunks), [&](int tile, int) {
    const int64_t outer = tile / chunks;
    int64_t begin = tile % chunks * kColumns;
    if (p.inner - begin < 4) begin = p.inner - 4;
    const int64_t n = p.inner - begin < kColumns ? p.inner - begin : kColumns;
    arg_reduce_columns(x + outer * p.axis * p.inner + begin, p, n, y + outer * p.inner + begin);
  });
}

const char* const kOperands = "wrong number of operands, parameters or dtypes";

const char* dense_problem(const KernelArgs& args, size_t params_bytes) {
  if (args.params_bytes != params_bytes || args.num_in != 1 || args.num_out != 1) return kOperands;
  if (const char* what = layout_problem(args.in[0], false)) return what;
  return layout_problem(args.out[0], false);
}

// The output has one element for each place of (outer, inner).
template <typename P>
const char* reduced_problem(const KernelArgs& args, const P& p) {
  if (const char* what = split_problem(args.in[0].num_elements(), p.outer, p.axis, p.inner)) return what;
  return split_problem(args.out[0].num_elements(), p.outer, 1, p.inner);
}

const char* reduce_f32_problem(const KernelArgs& args) {
  if (const char* what = dense_problem(args, sizeof(ReduceSplitParams))) return what;
  const auto& p = args.params_as<ReduceSplitParams>();
  if (p.op < 0 || p.op >= static_cast<int32_t>(ReduceOp::kLogSumExp)) return "unknown reduction";
  if (args.in[0].dtype != DType::kF32 || args.out[0].dtype != DType::kF32) return kOperands;
  return reduced_problem(args, p);
}

const char* reduce_any_problem(const KernelArgs& args) {
  if (const char* what = dense_problem(args, sizeof(ReduceParams))) return what;
  const auto& p = args.params_as<ReduceParams>();
  const TensorRef& x = args.in[0];
  if (p.op < 0 || p.op >= kNumReduceOps) return "unknown reduction";
  if (p.axes_mask < 0 || p.axes_mask >= 1 << x.rank) return "reduction over an axis that does not exist";
  if (args.out[0].dtype != x.dtype) return kOperands;
  int64_t kept = 1;
  for (int i = 0; i < x.rank; ++i) kept *= (p.axes_mask >> i & 1) != 0 ? 1 : x.dims[i];
  return kept == args.out[0].num_elements() ? nullptr : "output has the wrong size";
}

const char* arg_reduce_problem(const KernelArgs& args) {
  if (const char* what = dense_problem(args, sizeof(ArgReduceParams))) return what;
  const auto& p = args.params_as<ArgReduceParams>();
  if (args.out[0].dtype != DType::kI64) return kOperands;
  return p.axis < 1 ? "position within nothing" : reduced_problem(args, p);
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"reduce_f32", reduce_f32, check_by<reduce_f32_problem>, false, false},
      {"reduce_any", reduce_any, check_by<reduce_any_problem>, false, false},
      {"arg_reduce_any", arg_reduce, check_by<arg_reduce_problem>, false, false},
  };
  return kKernels;
}

}  // namespace kiln::ops::reduce
