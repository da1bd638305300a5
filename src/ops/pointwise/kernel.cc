// Vector forms see dense runs whose length is a multiple of four, a function a row of the tables below.
// Everything else (tails, channel gaps, scalars, short repeated rows) is brought into that form outside of
// them, so that an operator costs a few hundred bytes of code.
#include <cstring>

#include "cpu/activation_f32.h"
#include "cpu/broadcast.h"
#include "cpu/vector_math.h"
#include "ops/kernel_checks.h"
#include "ops/pointwise/pointwise.h"

namespace kiln::ops::pointwise {

void unary_any(const KernelArgs& args);
void binary_any(const KernelArgs& args);
void variadic_any(const KernelArgs& args);

namespace {

constexpr int64_t kBuffer = 256;
constexpr int64_t kActivated = 2048;

v128_t zero() { return wasm_f32x4_const_splat(0.0f); }
v128_t one() { return wasm_f32x4_const_splat(1.0f); }

v128_t if_negative(v128_t x, v128_t then, v128_t otherwise) {
  return wasm_v128_bitselect(then, otherwise, wasm_f32x4_lt(x, zero()));
}

// e^x - 1: exp's polynomial without the 1 where no range reduction is needed.
v128_t expm1_f32x4(v128_t x) {
  v128_t p = wasm_f32x4_const_splat(1.9875691500e-4f);
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(1.3981999507e-3f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(8.3334519073e-3f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(4.1665795894e-2f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(1.6666665459e-1f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(5.0000001201e-1f));
  const v128_t small = f32x4_madd(wasm_f32x4_mul(p, x), x, x);
  const v128_t large = wasm_f32x4_sub(exp_f32x4(x), one());
  return wasm_v128_bitselect(small, large, wasm_f32x4_lt(wasm_f32x4_abs(x), wasm_f32x4_const_splat(0.34f)));
}

// Formulas: v is x, a and b the parameters; pointwise.h has them in full.
v128_t identity(v128_t v, v128_t, v128_t) { return v; }
v128_t relu(v128_t v, v128_t, v128_t) { return wasm_f32x4_pmax(v, zero()); }
v128_t clip(v128_t v, v128_t a, v128_t b) { return clip_f32x4(v, a, b); }
v128_t sigmoid(v128_t v, v128_t, v128_t) { return sigmoid_f32x4(v); }
v128_t silu(v128_t v, v128_t, v128_t) { return silu_f32x4(v); }
v128_t tanh(v128_t v, v128_t, v128_t) { return tanh_f32x4(v); }
v128_t leaky_relu(v128_t v, v128_t a, v128_t) { return if_negative(v, wasm_f32x4_mul(v, a), v); }
v128_t hard_sigmoid(v128_t v, v128_t a, v128_t b) { return clip_f32x4(f32x4_madd(v, a, b), zero(), one()); }
v128_t hard_swish(v128_t v, v128_t, v128_t) {
  const v128_t sixth = f32x4_madd(v, wasm_f32x4_const_splat(1.0f / 6), wasm_f32x4_const_splat(0.5f));
  return wasm_f32x4_mul(v, clip_f32x4(sixth, zero(), one()));
}

// Elu (a, b = 1), Selu (a, b).
v128_t elu(v128_t v, v128_t a, v128_t) { return if_negative(v, wasm_f32x4_mul(a, expm1_f32x4(v)), v); }
v128_t selu(v128_t v, v128_t a, v128_t b) { return wasm_f32x4_mul(b, elu(v, a, b)); }
v128_t celu(v128_t v, v128_t a, v128_t) {
  return if_negative(v, wasm_f32x4_mul(a, expm1_f32x4(wasm_f32x4_div(v, a))), v);
}
v128_t thresholded_relu(v128_t v, v128_t a, v128_t) { return wasm_v128_and(v, wasm_f32x4_gt(v, a)); }

// max(x, 0) + log1p(e^-|x|), log1p(e) = log(u) e / (u - 1) with u = 1 + e rounded (Kahan).
v128_t softplus(v128_t v, v128_t, v128_t) {
  const v128_t e = exp_f32x4(wasm_f32x4_neg(wasm_f32x4_abs(v)));
  const v128_t u = wasm_f32x4_add(one(), e);
  const v128_t log1p = wasm_f32x4_div(wasm_f32x4_mul(log_f32x4(u), e), wasm_f32x4_sub(u, one()));
  return wasm_f32x4_add(wasm_f32x4_pmax(v, zero()), wasm_v128_bitselect(e, log1p, wasm_f32x4_eq(u, one())));
}
v128_t softsign(v128_t v, v128_t, v128_t) { return wasm_f32x4_div(v, wasm_f32x4_add(one(), wasm_f32x4_abs(v))); }

v128_t gelu_of(v128_t v, v128_t inner) {
  return wasm_f32x4_mul(wasm_f32x4_mul(wasm_f32x4_const_splat(0.5f), v), wasm_f32x4_add(one(), inner));
}
v128_t gelu(v128_t v, v128_t, v128_t) {
  return gelu_of(v, erf_f32x4(wasm_f32x4_mul(v, wasm_f32x4_const_splat(0.70710678f))));
}
v128_t gelu_tanh(v128_t v, v128_t, v128_t) {
  const v128_t cube = wasm_f32x4_mul(wasm_f32x4_mul(v, v), v);
  const v128_t inner = f32x4_madd(cube, wasm_f32x4_const_splat(0.044715f), v);
  return gelu_of(v, tanh_f32x4(wasm_f32x4_mul(wasm_f32x4_const_splat(0.79788456f), inner)));
}

// x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); above 20 the factor is 1.
v128_t mish(v128_t v, v128_t, v128_t) {
  const v128_t two = wasm_f32x4_const_splat(2.0f);
  const v128_t e = exp_f32x4(wasm_f32x4_pmin(v, wasm_f32x4_const_splat(20.0f)));
  const v128_t n = wasm_f32x4_mul(e, wasm_f32x4_add(e, two));
  return wasm_f32x4_div(wasm_f32x4_mul(v, n), wasm_f32x4_add(n, two));
}
v128_t erf(v128_t v, v128_t, v128_t) { return erf_f32x4(v); }
v128_t exp(v128_t v, v128_t, v128_t) { return exp_f32x4(v); }
v128_t log(v128_t v, v128_t, v128_t) { return log_f32x4(v); }
v128_t sqrt(v128_t v, v128_t, v128_t) { return wasm_f32x4_sqrt(v); }
v128_t abs(v128_t v, v128_t, v128_t) { return wasm_f32x4_abs(v); }
v128_t neg(v128_t v, v128_t, v128_t) { return wasm_f32x4_neg(v); }
v128_t reciprocal(v128_t v, v128_t, v128_t) { return wasm_f32x4_div(one(), v); }
v128_t floor(v128_t v, v128_t, v128_t) { return wasm_f32x4_floor(v); }
v128_t ceil(v128_t v, v128_t, v128_t) { return wasm_f32x4_ceil(v); }
v128_t round(v128_t v, v128_t, v128_t) { return wasm_f32x4_nearest(v); }
v128_t sign(v128_t v, v128_t, v128_t) {
  const v128_t up = wasm_v128_and(wasm_f32x4_gt(v, zero()), one());
  const v128_t down = wasm_v128_and(wasm_f32x4_lt(v, zero()), wasm_f32x4_const_splat(-1.0f));
  return wasm_v128_bitselect(v, wasm_v128_or(up, down), wasm_f32x4_ne(v, v));
}
v128_t cube(v128_t v, v128_t, v128_t) { return wasm_f32x4_mul(wasm_f32x4_mul(v, v), v); }

// y[i] = f(x[i]) for n elements, n a multiple of 4; y may be x.
using UnaryFn = void (*)(const UnaryParams& p, const float* x, float* y, int64_t n);

template <v128_t (*kFormula)(v128_t, v128_t, v128_t)>
void unary_run(const UnaryParams& p, const float* x, float* y, int64_t n) {
  const v128_t a = wasm_f32x4_splat(p.a);
  const v128_t b = wasm_f32x4_splat(p.b);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; i += 4) wasm_v128_store(y + i, kFormula(wasm_v128_load(x + i), a, b));
}

// In the order of UnaryOp; null where there is no vector form.
constexpr UnaryFn kUnaryRuns[kNumUnaryOps] = {
    unary_run<identity>,
    unary_run<relu>,
    unary_run<clip>,
    unary_run<sigmoid>,
    unary_run<silu>,
    unary_run<tanh>,
    unary_run<leaky_relu>,
    unary_run<hard_sigmoid>,
    unary_run<hard_swish>,
    unary_run<elu>,
    unary_run<selu>,
    unary_run<celu>,
    unary_run<thresholded_relu>,
    unary_run<softplus>,
    unary_run<softsign>,
    unary_run<gelu>,
    unary_run<gelu_tanh>,
    unary_run<mish>,
    unary_run<erf>,
    unary_run<exp>,
    unary_run<log>,
    unary_run<sqrt>,
    unary_run<abs>,
    unary_run<neg>,
    unary_run<reciprocal>,
    unary_run<floor>,
    unary_run<ceil>,
    unary_run<round>,
    unary_run<sign>,
    nullptr,  // kSin
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,  // kAtanh
    nullptr,  // kNot
    nullptr,
    nullptr,
    unary_run<cube>,
};

v128_t add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
v128_t subtract(v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); }
v128_t multiply(v128_t a, v128_t b) { return wasm_f32x4_mul(a, b); }
v128_t divide(v128_t a, v128_t b) { return wasm_f32x4_div(a, b); }
v128_t larger(v128_t a, v128_t b) { return wasm_f32x4_max(a, b); }
v128_t smaller(v128_t a, v128_t b) { return wasm_f32x4_min(a, b); }
v128_t prelu(v128_t a, v128_t b) { return if_negative(a, wasm_f32x4_mul(a, b), a); }

// y[i] = f(x1[i], x2[i]) for n elements, n a multiple of 4. A step is 4, or 0 for an operand that is four
// copies of one value.
using BinaryFn = void (*)(const float* x1, int64_t step1, const float* x2, int64_t step2, float* y, int64_t n);

template <v128_t (*kFormula)(v128_t, v128_t)>
void binary_run(const float* x1, int64_t step1, const float* x2, int64_t step2, float* y, int64_t n) {
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; i += 4, x1 += step1, x2 += step2) {
    wasm_v128_store(y + i, kFormula(wasm_v128_load(x1), wasm_v128_load(x2)));
  }
}

// In the order of BinaryOp.
constexpr BinaryFn kBinaryRuns[] = {
    binary_run<add>,    binary_run<subtract>, binary_run<multiply>, binary_run<divide>,
    binary_run<larger>, binary_run<smaller>,  binary_run<prelu>,
};

[[gnu::noinline]] void gather(const float* from, int64_t stride, float* to, int64_t n) {
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i, from += stride) to[i] = *from;
}

[[gnu::noinline]] void scatter(const float* from, float* to, int64_t stride, int64_t n) {
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i, to += stride) *to = from[i];
}

// A row of an operand as runs: in place where it is dense, four copies where it is one value, else through a
// buffer.
struct Reader {
  const float* row;
  int64_t stride;
  float buffer[kBuffer];

  void start(const float* first, int64_t element_stride) {
    row = first;
    stride = element_stride;
    if (stride == 0) gather(row, 0, buffer, 4);
  }
  int64_t step() const { return stride == 0 ? 0 : 4; }
  // n <= kBuffer unless `dense`; rounded up to a multiple of 4, which may hold anything.
  const float* run(int64_t begin, int64_t n, bool dense) {
    if (stride == 0) return buffer;
    if (dense) return row + begin;
    gather(row + begin * stride, stride, buffer, n);
    return buffer;
  }
};

int64_t round_up4(int64_t n) { return (n + 3) & ~int64_t{3}; }

void unary_f32(const KernelArgs& args) {
  const UnaryParams& p = args.params_as<UnaryParams>();
  const UnaryFn run = kUnaryRuns[p.op];
  const TensorRef* const operands[] = {&args.out[0], &args.in[0]};
  for_each_block(make_broadcast_loop(operands, 2), args.parallel, [&](const LoopBlock& block) {
    Reader x = {};
    float result[kBuffer];
    const int64_t dense = block.stride[0] == 1 && block.stride[1] == 1 ? block.n & ~int64_t{3} : 0;
    for (int64_t r = 0; r < block.rows; ++r) {
      x.start(args.in[0].as<float>() + block.offset[1] + r * block.row_stride[1], block.stride[1]);
      float* y = args.out[0].as<float>() + block.offset[0] + r * block.row_stride[0];
      run(p, x.row, y, dense);
      for (int64_t i = dense; i < block.n; i += kBuffer) {
        const int64_t n = block.n - i < kBuffer ? block.n - i : kBuffer;
        run(p, x.run(i, n, false), result, round_up4(n));
        scatter(result, y + i * block.stride[0], block.stride[0], n);
      }
    }
  });
}

// Rows of a few elements, dense in the output, that each operand either has dense too or repeats in every row
// (channels of an NHWC image): repeats them in a buffer, so that kBuffer / n rows become one. Returns how
// many rows that covers.
int64_t merge_short_rows(LoopBlock& block, const float* x[2], float (*buffers)[kBuffer]) {
  if (block.n >= 16 || block.rows < kBuffer / block.n || block.stride[0] != 1 || block.row_stride[0] != block.n)
    return 0;
  for (int k = 1; k < 3; ++k) {
    const bool dense = block.stride[k] == 1 && block.row_stride[k] == block.n;
    if (!dense && block.row_stride[k] != 0) return 0;
  }
  const int64_t repeats = kBuffer / block.n;
  const int64_t covered = block.rows / repeats * repeats;
  for (int k = 1; k < 3; ++k) {
    if (block.row_stride[k] != 0) {
      block.row_stride[k] *= repeats;
      continue;
    }
    for (int64_t i = 0; i < repeats; ++i) {
      gather(x[k - 1] + block.offset[k], block.stride[k], buffers[k - 1] + i * block.n, block.n);
    }
    x[k - 1] = buffers[k - 1];
    block.offset[k] = 0;
    block.stride[k] = 1;
  }
  block.row_stride[0] *= repeats;
  block.rows /= repeats;
  block.n *= repeats;
  return covered;
}

void run_binary_rows(BinaryFn run, const Activation& activation, const LoopBlock& block, const float* x1,
                     const float* x2, float* y) {
  Reader a = {};
  Reader b = {};
  float result[kBuffer];
  const bool is_dense = block.stride[0] == 1 && block.stride[1] <= 1 && block.stride[2] <= 1;
  const int64_t dense = is_dense ? block.n & ~int64_t{3} : 0;
  for (int64_t r = 0; r < block.rows; ++r) {
    a.start(x1 + block.offset[1] + r * block.row_stride[1], block.stride[1]);
    b.start(x2 + block.offset[2] + r * block.row_stride[2], block.stride[2]);
    float* to = y + block.offset[0] + r * block.row_stride[0];
    for (int64_t i = 0; i < dense; i += kActivated) {  // a piece that stays in the L1 cache for its activation
      const int64_t n = dense - i < kActivated ? dense - i : kActivated;
      run(a.run(i, n, true), a.step(), b.run(i, n, true), b.step(), to + i, n);
      activate_f32(activation, to + i, n);
    }
    for (int64_t i = dense; i < block.n; i += kBuffer) {
      const int64_t n = block.n - i < kBuffer ? block.n - i : kBuffer;
      run(a.run(i, n, false), a.step(), b.run(i, n, false), b.step(), result, round_up4(n));
      activate_f32(activation, result, round_up4(n));
      scatter(result, to + i * block.stride[0], block.stride[0], n);
    }
  }
}

// More than two inputs are taken in turn: out = in[0] op in[1], out = out op in[2], …
void binary_f32(const KernelArgs& args) {
  const BinaryParams& p = args.params_as<BinaryParams>();
  const BinaryFn run = kBinaryRuns[p.op];
  const TensorRef& y = args.out[0];
  for (int k = 1; k < args.num_in; ++k) {
    const TensorRef& x1 = k == 1 ? args.in[0] : y;
    const TensorRef& x2 = args.in[k];
    const Activation activation = k == args.num_in - 1 ? p.activation : Activation();
    const TensorRef* const operands[] = {&y, &x1, &x2};
    for_each_block(make_broadcast_loop(operands, 3), args.parallel, [&](const LoopBlock& block) {
      float buffers[2][kBuffer];
      LoopBlock merged = block;
      const float* x[2] = {x1.as<float>(), x2.as<float>()};
      const int64_t covered = merge_short_rows(merged, x, buffers);
      if (covered > 0) run_binary_rows(run, activation, merged, x[0], x[1], y.as<float>());
      LoopBlock rest = block;
      rest.rows -= covered;
      for (int i = 0; i < 3; ++i) rest.offset[i] += covered * rest.row_stride[i];
      run_binary_rows(run, activation, rest, x1.as<float>(), x2.as<float>(), y.as<float>());
    });
  }
}

bool all_f32(const KernelArgs& args) {
  bool ok = args.out[0].dtype == DType::kF32;
  for (int i = 0; i < args.num_in; ++i) ok = ok && args.in[i].dtype == DType::kF32;
  return ok;
}

// One output that the first `num_in` inputs broadcast to, all with gaps at most.
const char* pointwise_problem(const KernelArgs& args, int num_in) {
  const char* what = layout_problem(args.out[0], true);
  for (int i = 0; i < num_in && what == nullptr; ++i) {
    what = layout_problem(args.in[i], true);
    if (what == nullptr) what = broadcast_problem(args.in[i], args.out[0]);
  }
  return what;
}

const char* const kUnknown = "unknown pointwise operator";
const char* const kOperands = "wrong number of operands or wrong dtypes";

const char* unary_any_problem(const KernelArgs& args) {
  if (args.params_bytes != sizeof(UnaryParams)) return "parameters have the wrong size";
  const int32_t op = args.params_as<UnaryParams>().op;
  if (op < 0 || op >= kNumUnaryOps) return kUnknown;
  if (args.num_in < 1 || args.num_in > 3 || args.num_out < 1 || args.num_out > 2) return kOperands;
  if (args.num_out == 2 && args.out[1].present()) {
    if (const char* what = layout_problem(args.out[1], true)) return what;
  }
  for (int i = 1; i < args.num_in; ++i) {
    if (!args.in[i].present()) continue;
    if (const char* what = layout_problem(args.in[i], true)) return what;
    if (args.in[i].num_elements() != 1) return "a bound is not a scalar";
  }
  if (const char* what = pointwise_problem(args, 1)) return what;
  return args.in[0].num_elements() == args.out[0].num_elements() ? nullptr : "input and output differ in size";
}

const char* unary_f32_problem(const KernelArgs& args) {
  if (const char* what = unary_any_problem(args)) return what;
  if (args.num_in != 1 || args.num_out != 1 || !all_f32(args)) return kOperands;
  return kUnaryRuns[args.params_as<UnaryParams>().op] == nullptr ? kUnknown : nullptr;
}

const char* variadic_any_problem(const KernelArgs& args) {
  if (args.params_bytes != sizeof(BinaryParams)) return "parameters have the wrong size";
  const BinaryParams& p = args.params_as<BinaryParams>();
  if (p.op < 0 || p.op >= kNumBinaryOps || !is_activation(p.activation)) return kUnknown;
  if (args.num_in < 1 || args.num_out != 1) return kOperands;
  return pointwise_problem(args, args.num_in);
}

const char* binary_any_problem(const KernelArgs& args) {
  if (args.num_in != 2) return kOperands;
  return variadic_any_problem(args);
}

const char* binary_f32_problem(const KernelArgs& args) {
  if (const char* what = variadic_any_problem(args)) return what;
  if (args.num_in < 2 || !all_f32(args)) return kOperands;
  return has_vector_form(static_cast<BinaryOp>(args.params_as<BinaryParams>().op)) ? nullptr : kUnknown;
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"unary_f32", unary_f32, check_by<unary_f32_problem>, true, true},
      {"binary_f32", binary_f32, check_by<binary_f32_problem>, true, true},
      {"unary_any", unary_any, check_by<unary_any_problem>, true, true},
      {"binary_any", binary_any, check_by<binary_any_problem>, true, true},
      {"variadic_any", variadic_any, check_by<variadic_any_problem>, true, true},
  };
  return kKernels;
}

}  // namespace kiln::ops::pointwise
