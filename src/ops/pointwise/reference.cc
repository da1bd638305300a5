#include <cmath>

#include "cpu/broadcast.h"
#include "ops/kernel.h"
#include "ops/pointwise/pointwise.h"

namespace kiln::ops::pointwise {

namespace {

double clamp_unit(double x) { return x < 0 ? 0 : (x > 1 ? 1 : x); }

}  // namespace

double unary_value(UnaryOp op, double x, double a, double b) {
  switch (op) {
    case UnaryOp::kIdentity:
      return x;
    case UnaryOp::kRelu:
      return x < 0 ? 0 : x;
    case UnaryOp::kClip:
      x = x < a ? a : x;
      return x > b ? b : x;
    case UnaryOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::kSilu:
      return x / (1 + std::exp(-x));
    case UnaryOp::kTanh:
      return std::tanh(x);
    case UnaryOp::kLeakyRelu:
      return x < 0 ? a * x : x;
    case UnaryOp::kHardSigmoid:
      return clamp_unit(a * x + b);
    case UnaryOp::kHardSwish:
      return x * clamp_unit(x / 6 + 0.5);
    case UnaryOp::kElu:
      return x < 0 ? a * std::expm1(x) : x;
    case UnaryOp::kSelu:
      return b * (x <= 0 ? a * std::expm1(x) : x);
    case UnaryOp::kCelu:
      return x < 0 ? a * std::expm1(x / a) : x;
    case UnaryOp::kThresholdedRelu:
      return x > a ? x : 0;
    case UnaryOp::kSoftplus:
      return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
    case UnaryOp::kSoftsign:
      return x / (1 + std::fabs(x));
    case UnaryOp::kGelu:
      return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case UnaryOp::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case UnaryOp::kMish:
      return x * std::tanh(std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))));
    case UnaryOp::kErf:
      return std::erf(x);
    case UnaryOp::kExp:
      return std::exp(x);
    case UnaryOp::kLog:
      return std::log(x);
    case UnaryOp::kSqrt:
      return std::sqrt(x);
    case UnaryOp::kAbs:
      return std::fabs(x);
    case UnaryOp::kNeg:
      return -x;
    case UnaryOp::kReciprocal:
      return 1 / x;
    case UnaryOp::kFloor:
      return std::floor(x);
    case UnaryOp::kCeil:
      return std::ceil(x);
    case UnaryOp::kRound:
      return std::nearbyint(x);
    case UnaryOp::kSign:
      return x > 0 ? 1 : (x < 0 ? -1 : x);
    case UnaryOp::kSin:
      return std::sin(x);
    case UnaryOp::kCos:
      return std::cos(x);
    case UnaryOp::kTan:
      return std::tan(x);
    case UnaryOp::kAsin:
      return std::asin(x);
    case UnaryOp::kAcos:
      return std::acos(x);
    case UnaryOp::kAtan:
      return std::atan(x);
    case UnaryOp::kSinh:
      return std::sinh(x);
    case UnaryOp::kCosh:
      return std::cosh(x);
    case UnaryOp::kAsinh:
      return std::asinh(x);
    case UnaryOp::kAcosh:
      return std::acosh(x);
    case UnaryOp::kAtanh:
      return std::atanh(x);
    case UnaryOp::kNot:
      return x == 0;
    case UnaryOp::kIsNan:
      return std::isnan(x);
    case UnaryOp::kIsInf:
      return (x == INFINITY && a != 0) || (x == -INFINITY && b != 0);
    case UnaryOp::kCube:
      return x * x * x;
  }
  return x;
}

int64_t unary_value_i64(UnaryOp op, int64_t x, bool is_unsigned) {
  const bool negative = x < 0 && !is_unsigned;
  switch (op) {
    case UnaryOp::kRelu:
      return negative ? 0 : x;
    case UnaryOp::kAbs:
      return negative ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
    case UnaryOp::kNeg:
      return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    case UnaryOp::kSign:
      return negative ? -1 : x != 0;
    case UnaryOp::kNot:
      return x == 0;
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
      return 0;
    default:
      return x;
  }
}

double binary_value(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMean:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMax:
      return a > b || std::isnan(a) ? a : b;
    case BinaryOp::kMin:
      return a < b || std::isnan(a) ? a : b;
    case BinaryOp::kPRelu:
      return a < 0 ? a * b : a;
    case BinaryOp::kPow:
      return std::pow(a, b);
    case BinaryOp::kMod: {
      const double remainder = std::fmod(a, b);
      return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    }
    case BinaryOp::kFmod:
      return std::fmod(a, b);
    case BinaryOp::kEqual:
      return a == b;
    case BinaryOp::kLess:
      return a < b;
    case BinaryOp::kLessOrEqual:
      return a <= b;
    case BinaryOp::kGreater:
      return a > b;
    case BinaryOp::kGreaterOrEqual:
      return a >= b;
    case BinaryOp::kAnd:
      return a != 0 && b != 0;
    case BinaryOp::kOr:
      return a != 0 || b != 0;
    case BinaryOp::kXor:
      return (a != 0) != (b != 0);
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
      return a;  // integers only
  }
  return a;
}

namespace {

// base^exponent modulo 2^64 by squaring; negative exponents as the truncated quotient (1, -1 or 0).
int64_t power_i64(int64_t base, int64_t exponent, bool is_unsigned) {
  if (exponent < 0 && !is_unsigned) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  }
  uint64_t result = 1;
  uint64_t square = static_cast<uint64_t>(base);
  for (uint64_t rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
    if (rest & 1) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

// Quotient and remainder without traps: division by 0 gives 0, INT64_MIN / -1 wraps.
int64_t divide_i64(int64_t a, int64_t b, bool is_unsigned) {
  if (b == 0) return 0;
  if (is_unsigned) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}

int64_t remainder_i64(int64_t a, int64_t b, bool is_unsigned) {
  if (b == 0) return 0;
  if (is_unsigned) return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  return b == -1 ? 0 : a % b;
}

bool less_i64(int64_t a, int64_t b, bool is_unsigned) {
  return is_unsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

bool is_unsigned_or_bool(DType dtype) { return is_unsigned(dtype) || dtype == DType::kBool; }

// How many elements are converted at a time by the kernels that take any dtype.
constexpr int kChunk = 128;

}  // namespace

int64_t binary_value_i64(BinaryOp op, int64_t a, int64_t b, bool is_unsigned) {
  const uint64_t ua = static_cast<uint64_t>(a);
  const uint64_t ub = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMean:
      return static_cast<int64_t>(ua + ub);
    case BinaryOp::kSub:
      return static_cast<int64_t>(ua - ub);
    case BinaryOp::kMul:
      return static_cast<int64_t>(ua * ub);
    case BinaryOp::kDiv:
      return divide_i64(a, b, is_unsigned);
    case BinaryOp::kMax:
      return less_i64(a, b, is_unsigned) ? b : a;
    case BinaryOp::kMin:
      return less_i64(b, a, is_unsigned) ? b : a;
    case BinaryOp::kPRelu:
      return a < 0 && !is_unsigned ? static_cast<int64_t>(ua * ub) : a;
    case BinaryOp::kPow:
      return power_i64(a, b, is_unsigned);
    case BinaryOp::kMod: {
      const int64_t remainder = remainder_i64(a, b, is_unsigned);
      return !is_unsigned && remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    }
    case BinaryOp::kFmod:
      return remainder_i64(a, b, is_unsigned);
    case BinaryOp::kEqual:
      return a == b;
    case BinaryOp::kLess:
      return less_i64(a, b, is_unsigned);
    case BinaryOp::kLessOrEqual:
      return !less_i64(b, a, is_unsigned);
    case BinaryOp::kGreater:
      return less_i64(b, a, is_unsigned);
    case BinaryOp::kGreaterOrEqual:
      return !less_i64(a, b, is_unsigned);
    case BinaryOp::kAnd:
      return a != 0 && b != 0;
    case BinaryOp::kOr:
      return a != 0 || b != 0;
    case BinaryOp::kXor:
      return (a != 0) != (b != 0);
    case BinaryOp::kShiftLeft:
      return ub > 63 ? 0 : static_cast<int64_t>(ua << ub);
    case BinaryOp::kShiftRight:
      return ub > 63 ? 0 : static_cast<int64_t>(ua >> ub);
  }
  return a;
}

// Clip takes its bounds as inputs 1 and 2 where they are present, else from a and b (floats) or none
// (integers).
void unary_any(const KernelArgs& args) {
  const UnaryParams p = args.params_as<UnaryParams>();
  const auto op = static_cast<UnaryOp>(p.op);
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const bool in_f64 = is_float(x.dtype);
  const bool as_u64 = is_unsigned_or_bool(x.dtype);
  const bool has_min = args.num_in > 1 && args.in[1].present();
  const bool has_max = args.num_in > 2 && args.in[2].present();
  const double a = has_min ? element_as_f64(args.in[1].dtype, args.in[1].data, 0) : p.a;
  const double b = has_max ? element_as_f64(args.in[2].dtype, args.in[2].data, 0) : p.b;
  const int64_t low = has_min ? element_as_i64(args.in[1].dtype, args.in[1].data, 0) : 0;
  const int64_t high = has_max ? element_as_i64(args.in[2].dtype, args.in[2].data, 0) : 0;
  const TensorRef* const operands[] = {&y, &x};
  for_each_block(make_broadcast_loop(operands, 2), args.parallel, [&](const LoopBlock& block) {
    for (int64_t r = 0; r < block.rows; ++r) {
      int64_t to = block.offset[0] + r * block.row_stride[0];
      int64_t from = block.offset[1] + r * block.row_stride[1];
      for (int64_t i = 0; i < block.n; ++i, to += block.stride[0], from += block.stride[1]) {
        if (in_f64) {
          store_f64(y.dtype, y.data, to, unary_value(op, element_as_f64(x.dtype, x.data, from), a, b));
          continue;
        }
        int64_t value = unary_value_i64(op, element_as_i64(x.dtype, x.data, from), as_u64);
        if (has_min && less_i64(value, low, as_u64)) value = low;
        if (has_max && less_i64(high, value, as_u64)) value = high;
        store_i64(y.dtype, y.data, to, value);
      }
    }
  });
  if (args.num_out > 1 && args.out[1].present()) {  // Dropout's mask
    const TensorRef* const mask[] = {&args.out[1]};
    for_each_block(make_broadcast_loop(mask, 1), args.parallel, [&](const LoopBlock& block) {
      for (int64_t r = 0; r < block.rows; ++r) {
        for (int64_t i = 0; i < block.n; ++i) {
          const int64_t at = block.offset[0] + r * block.row_stride[0] + i * block.stride[0];
          store_i64(args.out[1].dtype, args.out[1].data, at, 1);
        }
      }
    });
  }
}

void binary_any(const KernelArgs& args) {
  const BinaryParams& p = args.params_as<BinaryParams>();
  const auto op = static_cast<BinaryOp>(p.op);
  const TensorRef& x1 = args.in[0];
  const TensorRef& x2 = args.in[1];
  const TensorRef& y = args.out[0];
  const bool in_f64 = is_float(x1.dtype) || is_float(x2.dtype);
  const bool as_u64 = is_unsigned_or_bool(x1.dtype) && is_unsigned_or_bool(x2.dtype);
  const TensorRef* const operands[] = {&y, &x1, &x2};
  for_each_block(make_broadcast_loop(operands, 3), args.parallel, [&](const LoopBlock& block) {
    for (int64_t r = 0; r < block.rows; ++r) {
      int64_t to = block.offset[0] + r * block.row_stride[0];
      int64_t i1 = block.offset[1] + r * block.row_stride[1];
      int64_t i2 = block.offset[2] + r * block.row_stride[2];
      for (int64_t i = 0; i < block.n; ++i, to += block.stride[0], i1 += block.stride[1], i2 += block.stride[2]) {
        if (in_f64) {
          const double value =
              binary_value(op, element_as_f64(x1.dtype, x1.data, i1), element_as_f64(x2.dtype, x2.data, i2));
          store_f64(y.dtype, y.data, to, apply_activation(p.activation, value));
        } else {
          store_i64(y.dtype, y.data, to,
                    binary_value_i64(op, element_as_i64(x1.dtype, x1.data, i1), element_as_i64(x2.dtype, x2.data, i2),
                                     as_u64));
        }
      }
    }
  });
}

// Any number of inputs of one dtype: a chunk of the output at a time, so that it is rounded once.
void variadic_any(const KernelArgs& args) {
  const BinaryParams& p = args.params_as<BinaryParams>();
  const auto op = static_cast<BinaryOp>(p.op);
  const TensorRef& y = args.out[0];
  const bool in_f64 = is_float(y.dtype);
  const bool as_u64 = is_unsigned_or_bool(y.dtype);
  const int64_t count = y.num_elements();
  parallel_for(args.parallel, static_cast<int>((count + kChunk - 1) / kChunk), [&](int tile, int) {
    const int64_t begin = static_cast<int64_t>(tile) * kChunk;
    const int64_t end = begin + kChunk < count ? begin + kChunk : count;
    for (int64_t i = begin; i < end; ++i) {
      int64_t index[kMaxRank];
      int64_t to = 0;
      int64_t rest = i;
      for (int axis = y.rank - 1; axis >= 0; --axis) {
        index[axis] = rest % y.dims[axis];
        rest /= y.dims[axis];
        to += index[axis] * y.strides[axis];
      }
      double sum = 0;
      int64_t sum_i64 = 0;
      for (int k = 0; k < args.num_in; ++k) {
        const TensorRef& x = args.in[k];
        int64_t from = 0;
        for (int axis = 0; axis < x.rank; ++axis) {
          if (x.dims[axis] != 1) from += index[y.rank - x.rank + axis] * x.strides[axis];
        }
        const double value = element_as_f64(x.dtype, x.data, from);
        const int64_t value_i64 = in_f64 ? 0 : element_as_i64(x.dtype, x.data, from);
        sum = k == 0 ? value : binary_value(op, sum, value);
        sum_i64 = k == 0 ? value_i64 : binary_value_i64(op, sum_i64, value_i64, as_u64);
      }
      if (in_f64) {
        if (op == BinaryOp::kMean) sum /= args.num_in;
        store_f64(y.dtype, y.data, to, apply_activation(p.activation, sum));
      } else {
        if (op == BinaryOp::kMean) sum_i64 = divide_i64(sum_i64, args.num_in, as_u64);
        store_i64(y.dtype, y.data, to, sum_i64);
      }
    }
  });
}

}  // namespace kiln::ops::pointwise
