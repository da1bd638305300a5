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

v128_t splat(float value) { return wasm_f32x4_splat(value); }

// e^x - 1: exp's polynomial without the 1 where no range reduction is needed.
v128_t expm1_f32x4(v128_t x) {
  v128_t p = wasm_f32x4_const_splat(1.9875691500e-4f);
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(1.3981999507e-3f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(8.3334519073e-3f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(4.1665795894e-2f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(1.6666665459e-1f));
  p = f32x4_madd(p, x, wasm_f32x4_const_splat(5.0000001201e-1f));
  const v128_t small = f32x4_madd(wasm_f32x4_mul(p, x), x, x);
  const v128_t large = wasm_f32x4_sub(exp_f32x4(x), wasm_f32x4_const_splat(1.0f));
  return wasm_v128_bitselect(small, large, wasm_f32x4_lt(wasm_f32x4_abs(x), wasm_f32x4_const_splat(0.34f)));
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), log1p(e) = log(u) e / (u - 1) with u = 1 + e rounded (Kahan).
v128_t softplus_f32x4(v128_t x) {
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  const v128_t e = exp_f32x4(wasm_f32x4_neg(wasm_f32x4_abs(x)));
  const v128_t u = wasm_f32x4_add(one, e);
  const v128_t log1p = wasm_f32x4_div(wasm_f32x4_mul(log_f32x4(u), e), wasm_f32x4_sub(u, one));
  return wasm_f32x4_add(wasm_f32x4_pmax(x, wasm_f32x4_const_splat(0.0f)),
                        wasm_v128_bitselect(e, log1p, wasm_f32x4_eq(u, one)));
}

// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); above 20 it is 1.
v128_t mish_f32x4(v128_t x) {
  const v128_t two = wasm_f32x4_const_splat(2.0f);
  const v128_t e = exp_f32x4(wasm_f32x4_pmin(x, wasm_f32x4_const_splat(20.0f)));
  const v128_t n = wasm_f32x4_mul(e, wasm_f32x4_add(e, two));
  return wasm_f32x4_div(wasm_f32x4_mul(x, n), wasm_f32x4_add(n, two));
}

v128_t sign_f32x4(v128_t x) {
  const v128_t zero = wasm_f32x4_const_splat(0.0f);
  const v128_t up = wasm_v128_and(wasm_f32x4_gt(x, zero), wasm_f32x4_const_splat(1.0f));
  const v128_t down = wasm_v128_and(wasm_f32x4_lt(x, zero), wasm_f32x4_const_splat(-1.0f));
  return wasm_v128_bitselect(x, wasm_v128_or(up, down), wasm_f32x4_ne(x, x));
}

v128_t select_negative(v128_t if_negative, v128_t otherwise, v128_t x) {
  return wasm_v128_bitselect(if_negative, otherwise, wasm_f32x4_lt(x, wasm_f32x4_const_splat(0.0f)));
}

// A lane on its own gives the same bits as in a vector: tails and gaps go one by one.
template <typename F>
void unary_block(const LoopBlock& block, const float* x, float* y, F f) {
  const int64_t num_vectors = block.stride[0] == 1 && block.stride[1] == 1 ? block.n / 4 : 0;
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* from = x + block.offset[1] + r * block.row_stride[1];
    float* to = y + block.offset[0] + r * block.row_stride[0];
    for (int64_t i = 0; i < num_vectors; ++i, from += 4, to += 4)
      wasm_v128_store(to, f(wasm_v128_load(from)));
    for (int64_t i = num_vectors * 4; i < block.n; ++i, from += block.stride[1], to += block.stride[0]) {
      *to = wasm_f32x4_extract_lane(f(splat(*from)), 0);
    }
  }
}

void run_unary_block(const UnaryParams& p, const LoopBlock& block, const float* x, float* y) {
  const v128_t a = splat(p.a);
  const v128_t b = splat(p.b);
  const v128_t zero = wasm_f32x4_const_splat(0.0f);
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  const v128_t half = wasm_f32x4_const_splat(0.5f);
  switch (static_cast<UnaryOp>(p.op)) {
    case UnaryOp::kIdentity:
      return unary_block(block, x, y, [](v128_t v) { return v; });
    case UnaryOp::kRelu:
      return unary_block(block, x, y, [=](v128_t v) { return wasm_f32x4_pmax(v, zero); });
    case UnaryOp::kClip:
      return unary_block(block, x, y, [=](v128_t v) { return clip_f32x4(v, a, b); });
    case UnaryOp::kSigmoid:
      return unary_block(block, x, y, sigmoid_f32x4);
    case UnaryOp::kSilu:
      return unary_block(block, x, y, silu_f32x4);
    case UnaryOp::kTanh:
      return unary_block(block, x, y, tanh_f32x4);
    case UnaryOp::kLeakyRelu:
      return unary_block(block, x, y, [=](v128_t v) { return select_negative(wasm_f32x4_mul(v, a), v, v); });
    case UnaryOp::kHardSigmoid:
      return unary_block(block, x, y, [=](v128_t v) { return clip_f32x4(f32x4_madd(v, a, b), zero, one); });
    case UnaryOp::kHardSwish:
      return unary_block(block, x, y, [=](v128_t v) {
        return wasm_f32x4_mul(v, clip_f32x4(f32x4_madd(v, splat(1.0f / 6), half), zero, one));
      });
    case UnaryOp::kElu:
      return unary_block(block, x, y,
                         [=](v128_t v) { return select_negative(wasm_f32x4_mul(a, expm1_f32x4(v)), v, v); });
    case UnaryOp::kSelu:
      return unary_block(block, x, y, [=](v128_t v) {
        return wasm_f32x4_mul(b, select_negative(wasm_f32x4_mul(a, expm1_f32x4(v)), v, v));
      });
    case UnaryOp::kCelu:
      return unary_block(block, x, y, [=](v128_t v) {
        return select_negative(wasm_f32x4_mul(a, expm1_f32x4(wasm_f32x4_div(v, a))), v, v);
      });
    case UnaryOp::kThresholdedRelu:
      return unary_block(block, x, y, [=](v128_t v) { return wasm_v128_and(v, wasm_f32x4_gt(v, a)); });
    case UnaryOp::kSoftplus:
      return unary_block(block, x, y, softplus_f32x4);
    case UnaryOp::kSoftsign:
      return unary_block(block, x, y,
                         [=](v128_t v) { return wasm_f32x4_div(v, wasm_f32x4_add(one, wasm_f32x4_abs(v))); });
    case UnaryOp::kGelu:
      return unary_block(block, x, y, [=](v128_t v) {
        const v128_t erf = erf_f32x4(wasm_f32x4_mul(v, splat(0.70710678f)));
        return wasm_f32x4_mul(wasm_f32x4_mul(half, v), wasm_f32x4_add(one, erf));
      });
    case UnaryOp::kGeluTanh:
      return unary_block(block, x, y, [=](v128_t v) {
        const v128_t cube = wasm_f32x4_mul(wasm_f32x4_mul(v, v), v);
        const v128_t tanh =
            tanh_f32x4(wasm_f32x4_mul(splat(0.79788456f), f32x4_madd(cube, splat(0.044715f), v)));
        return wasm_f32x4_mul(wasm_f32x4_mul(half, v), wasm_f32x4_add(one, tanh));
      });
    case UnaryOp::kMish:
      return unary_block(block, x, y, mish_f32x4);
    case UnaryOp::kErf:
      return unary_block(block, x, y, erf_f32x4);
    case UnaryOp::kExp:
      return unary_block(block, x, y, exp_f32x4);
    case UnaryOp::kLog:
      return unary_block(block, x, y, log_f32x4);
    case UnaryOp::kSqrt:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_sqrt(v); });
    case UnaryOp::kAbs:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_abs(v); });
    case UnaryOp::kNeg:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_neg(v); });
    case UnaryOp::kReciprocal:
      return unary_block(block, x, y, [=](v128_t v) { return wasm_f32x4_div(one, v); });
    case UnaryOp::kFloor:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_floor(v); });
    case UnaryOp::kCeil:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_ceil(v); });
    case UnaryOp::kRound:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_nearest(v); });
    case UnaryOp::kSign:
      return unary_block(block, x, y, sign_f32x4);
    case UnaryOp::kCube:
      return unary_block(block, x, y, [](v128_t v) { return wasm_f32x4_mul(wasm_f32x4_mul(v, v), v); });
    default:
      return;  // refused by the check
  }
}

void unary_f32(const KernelArgs& args) {
  const UnaryParams& p = args.params_as<UnaryParams>();
  const TensorRef* const operands[] = {&args.out[0], &args.in[0]};
  for_each_block(make_broadcast_loop(operands, 2), args.parallel, [&](const LoopBlock& block) {
    run_unary_block(p, block, args.in[0].as<float>(), args.out[0].as<float>());
  });
}

template <typename F>
void binary_block(const LoopBlock& block, const float* x1, const float* x2, float* y, F f) {
  const int64_t s1 = block.stride[1];
  const int64_t s2 = block.stride[2];
  const bool vectors = block.stride[0] == 1 && (s1 == 0 || s1 == 1) && (s2 == 0 || s2 == 1);
  const int64_t num_vectors = vectors ? block.n / 4 : 0;
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* from1 = x1 + block.offset[1] + r * block.row_stride[1];
    const float* from2 = x2 + block.offset[2] + r * block.row_stride[2];
    float* to = y + block.offset[0] + r * block.row_stride[0];
    if (s1 == 0) {
      const v128_t first = splat(*from1);
      for (int64_t i = 0; i < num_vectors; ++i, from2 += s2 * 4, to += 4) {
        wasm_v128_store(to, f(first, s2 == 0 ? splat(*from2) : wasm_v128_load(from2)));
      }
    } else if (s2 == 0) {
      const v128_t second = splat(*from2);
      for (int64_t i = 0; i < num_vectors; ++i, from1 += 4, to += 4) {
        wasm_v128_store(to, f(wasm_v128_load(from1), second));
      }
    } else {
      for (int64_t i = 0; i < num_vectors; ++i, from1 += 4, from2 += 4, to += 4) {
        wasm_v128_store(to, f(wasm_v128_load(from1), wasm_v128_load(from2)));
      }
    }
    for (int64_t i = num_vectors * 4; i < block.n; ++i, from1 += s1, from2 += s2, to += block.stride[0]) {
      *to = wasm_f32x4_extract_lane(f(splat(*from1), splat(*from2)), 0);
    }
  }
}

void run_binary_block(BinaryOp op, const LoopBlock& block, const float* x1, const float* x2, float* y) {
  switch (op) {
    case BinaryOp::kAdd:
      return binary_block(block, x1, x2, y, [](v128_t a, v128_t b) { return wasm_f32x4_add(a, b); });
    case BinaryOp::kSub:
      return binary_block(block, x1, x2, y, [](v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); });
    case BinaryOp::kMul:
      return binary_block(block, x1, x2, y, [](v128_t a, v128_t b) { return wasm_f32x4_mul(a, b); });
    case BinaryOp::kDiv:
      return binary_block(block, x1, x2, y, [](v128_t a, v128_t b) { return wasm_f32x4_div(a, b); });
    case BinaryOp::kMax:
      return binary_block(block, x1, x2, y, [](v128_t a, v128_t b) { return wasm_f32x4_max(a, b); });
    case BinaryOp::kMin:
      return binary_block(block, x1, x2, y, [](v128_t a, v128_t b) { return wasm_f32x4_min(a, b); });
    case BinaryOp::kPRelu:
      return binary_block(block, x1, x2, y,
                          [](v128_t a, v128_t b) { return select_negative(wasm_f32x4_mul(a, b), a, a); });
    default:
      return;  // refused by the check
  }
}

constexpr int kRepeated = 256;

// Rows of a few elements, dense in the output, that each operand either has dense too or repeats in every row
// (channels of an NHWC image): repeats them in `buffers`, so that kRepeated / n rows become one. False if the
// block is not so.
bool merge_short_rows(LoopBlock& block, const float* x[2], float (*buffers)[kRepeated]) {
  if (block.n >= 16 || block.rows < kRepeated / block.n || block.stride[0] != 1 ||
      block.row_stride[0] != block.n)
    return false;
  for (int k = 1; k < 3; ++k) {
    const bool dense = block.stride[k] == 1 && block.row_stride[k] == block.n;
    if (!dense && block.row_stride[k] != 0) return false;
  }
  const int64_t repeats = kRepeated / block.n;
  for (int k = 1; k < 3; ++k) {
    if (block.row_stride[k] != 0) {
      block.row_stride[k] = block.n * repeats;
      continue;
    }
    float* buffer = buffers[k - 1];
    for (int64_t i = 0; i < block.n * repeats; ++i) {
      buffer[i] = x[k - 1][block.offset[k] + i % block.n * block.stride[k]];
    }
    x[k - 1] = buffer;
    block.offset[k] = 0;
    block.stride[k] = 1;
  }
  block.row_stride[0] = block.n * repeats;
  block.rows /= repeats;
  block.n *= repeats;
  return true;
}

void run_short_rows(BinaryOp op, const LoopBlock& block, const float* x1, const float* x2, float* y) {
  float buffers[2][kRepeated];
  LoopBlock merged = block;
  const float* x[2] = {x1, x2};
  if (!merge_short_rows(merged, x, buffers)) return run_binary_block(op, block, x1, x2, y);
  run_binary_block(op, merged, x[0], x[1], y);
  const int64_t done = merged.n * merged.rows / block.n;
  LoopBlock rest = block;
  rest.rows -= done;
  for (int k = 0; k < 3; ++k) rest.offset[k] += done * rest.row_stride[k];
  run_binary_block(op, rest, x1, x2, y);
}

// More than two inputs are taken in turn: out = in[0] op in[1], out = out op in[2], …
void binary_f32(const KernelArgs& args) {
  const BinaryParams& p = args.params_as<BinaryParams>();
  const TensorRef& y = args.out[0];
  for (int k = 1; k < args.num_in; ++k) {
    const TensorRef& x1 = k == 1 ? args.in[0] : y;
    const TensorRef& x2 = args.in[k];
    const bool last = k == args.num_in - 1;
    const TensorRef* const operands[] = {&y, &x1, &x2};
    for_each_block(make_broadcast_loop(operands, 3), args.parallel, [&](const LoopBlock& block) {
      run_short_rows(static_cast<BinaryOp>(p.op), block, x1.as<float>(), x2.as<float>(), y.as<float>());
      if (!last || p.activation.kind == 0) return;
      for (int64_t r = 0; r < block.rows; ++r) {
        float* row = y.as<float>() + block.offset[0] + r * block.row_stride[0];
        if (block.stride[0] == 1) {
          activate_f32(p.activation, row, block.n);
          continue;
        }
        for (int64_t i = 0; i < block.n; ++i) activate_f32(p.activation, row + i * block.stride[0], 1);
      }
    });
  }
}

bool all_f32(const KernelArgs& args) {
  bool ok = args.out[0].dtype == DType::kF32;
  for (int i = 0; i < args.num_in; ++i) ok = ok && args.in[i].dtype == DType::kF32;
  return ok;
}

// One output that every present input broadcasts to, all with gaps at most.
Status check_pointwise(const KernelArgs& args) {
  KILN_TRY(check_layout(args.out[0], true));
  for (int i = 0; i < args.num_in; ++i) {
    if (!args.in[i].present()) return corrupt("an input is absent");
    KILN_TRY(check_layout(args.in[i], true));
    KILN_TRY(check_broadcast(args.in[i], args.out[0]));
  }
  return {};
}

Status check_unary_f32(const KernelArgs& args) {
  KILN_TRY(check_params<UnaryParams>(args));
  KILN_TRY(check_operands(args, 1, 1, 1));
  const int32_t op = args.params_as<UnaryParams>().op;
  if (op < 0 || op >= kNumUnaryOps || !has_vector_form(static_cast<UnaryOp>(op)))
    return corrupt("unknown operator");
  if (!all_f32(args)) return corrupt("unary_f32 takes f32");
  return check_pointwise(args);
}

Status check_unary_any(const KernelArgs& args) {
  KILN_TRY(check_params<UnaryParams>(args));
  const int32_t op = args.params_as<UnaryParams>().op;
  if (op < 0 || op >= kNumUnaryOps) return corrupt("unknown operator");
  const bool has_mask = args.num_out == 2;
  if (args.num_in < 1 || args.num_in > 3 || args.num_out < 1 || args.num_out > 2 || !args.in[0].present() ||
      !args.out[0].present()) {
    return corrupt("unary_any takes one to three inputs and one or two outputs");
  }
  if (has_mask && args.out[1].present()) KILN_TRY(check_layout(args.out[1], true));
  for (int i = 1; i < args.num_in; ++i) {
    if (!args.in[i].present()) continue;
    KILN_TRY(check_layout(args.in[i], true));
    if (args.in[i].num_elements() != 1) return corrupt("a bound is not a scalar");
  }
  KernelArgs first = args;
  first.num_in = 1;
  return check_pointwise(first);
}

Status check_binary_params(const KernelArgs& args) {
  KILN_TRY(check_params<BinaryParams>(args));
  const BinaryParams& p = args.params_as<BinaryParams>();
  if (p.op < 0 || p.op >= kNumBinaryOps || !is_activation(p.activation)) return corrupt("unknown operator");
  return {};
}

Status check_binary_f32(const KernelArgs& args) {
  KILN_TRY(check_binary_params(args));
  KILN_TRY(check_operands(args, 2, 1 << 16, 1));
  if (!has_vector_form(static_cast<BinaryOp>(args.params_as<BinaryParams>().op)))
    return corrupt("unknown operator");
  KILN_TRY(check_pointwise(args));
  if (!all_f32(args)) return corrupt("binary_f32 takes f32");
  return {};
}

Status check_binary_any(const KernelArgs& args) {
  KILN_TRY(check_binary_params(args));
  KILN_TRY(check_operands(args, 2, 2, 1));
  return check_pointwise(args);
}

Status check_variadic_any(const KernelArgs& args) {
  KILN_TRY(check_binary_params(args));
  KILN_TRY(check_operands(args, 1, 1 << 16, 1));
  return check_pointwise(args);
}

}  // namespace

bool has_vector_form(UnaryOp op) { return op <= UnaryOp::kSign || op == UnaryOp::kCube; }

bool has_vector_form(BinaryOp op) { return op <= BinaryOp::kPRelu; }

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"unary_f32", unary_f32, check_unary_f32, true, true},
      {"binary_f32", binary_f32, check_binary_f32, true, true},
      {"unary_any", unary_any, check_unary_any, true, true},
      {"binary_any", binary_any, check_binary_any, true, true},
      {"variadic_any", variadic_any, check_variadic_any, true, true},
  };
  return kKernels;
}

}  // namespace kiln::ops::pointwise
