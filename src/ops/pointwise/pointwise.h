// Pointwise operators: unary functions, binary and variadic functions with NumPy broadcasting, one enum row
// each.
//
// Kernels: unary_f32 and binary_f32 (SIMD), unary_any, binary_any and variadic_any (every dtype, element by
// element). All take channel views. The *_any kernels are the reference: f64 or wrapping 64-bit integers,
// rounded once.
#pragma once

#include <cstdint>

#include "cpu/activation_kind.h"

namespace kiln::ops::pointwise {

// Stored in bundles: append only.
enum class UnaryOp : int32_t {
  kIdentity = 0,
  kRelu = 1,     // max(x, 0)
  kClip = 2,     // min(max(x, a), b)
  kSigmoid = 3,  // 1 / (1 + e^-x)
  kSilu = 4,     // x * sigmoid(x)
  kTanh = 5,
  kLeakyRelu = 6,         // x < 0 ? a * x : x
  kHardSigmoid = 7,       // max(0, min(1, a * x + b))
  kHardSwish = 8,         // x * max(0, min(1, x / 6 + 0.5))
  kElu = 9,               // x < 0 ? a * (e^x - 1) : x
  kSelu = 10,             // b * (x <= 0 ? a * (e^x - 1) : x)
  kCelu = 11,             // max(0, x) + min(0, a * (e^(x / a) - 1))
  kThresholdedRelu = 12,  // x > a ? x : 0
  kSoftplus = 13,         // log(1 + e^x)
  kSoftsign = 14,         // x / (1 + |x|)
  kGelu = 15,             // x / 2 * (1 + erf(x / sqrt 2))
  kGeluTanh = 16,         // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
  kMish = 17,             // x * tanh(softplus(x))
  kErf = 18,
  kExp = 19,
  kLog = 20,
  kSqrt = 21,
  kAbs = 22,
  kNeg = 23,
  kReciprocal = 24,  // 1 / x
  kFloor = 25,
  kCeil = 26,
  kRound = 27,  // half to even
  kSign = 28,
  kSin = 29,
  kCos = 30,
  kTan = 31,
  kAsin = 32,
  kAcos = 33,
  kAtan = 34,
  kSinh = 35,
  kCosh = 36,
  kAsinh = 37,
  kAcosh = 38,
  kAtanh = 39,
  kNot = 40,    // bool
  kIsNan = 41,  // -> bool
  kIsInf = 42,  // -> bool; a: +inf counts, b: -inf counts
  kCube = 43,   // x^3, what Pow with 3 becomes
};
constexpr int32_t kNumUnaryOps = 44;

struct UnaryParams {
  int32_t op = 0;
  float a = 0;
  float b = 0;
};

// Stored in bundles: append only.
enum class BinaryOp : int32_t {
  kAdd = 0,  // integers wrap
  kSub = 1,
  kMul = 2,
  kDiv = 3,  // integers truncate towards zero; x / 0 = 0
  kMax = 4,  // NaN if either is
  kMin = 5,
  kPRelu = 6,  // a < 0 ? a * b : a
  kPow = 7,
  kMod = 8,     // integers, sign of the divisor; x mod 0 = 0
  kFmod = 9,    // sign of the dividend
  kEqual = 10,  // comparisons -> bool
  kLess = 11,
  kLessOrEqual = 12,
  kGreater = 13,
  kGreaterOrEqual = 14,
  kAnd = 15,  // bool
  kOr = 16,
  kXor = 17,
  kShiftLeft = 18,  // unsigned; shifts by 64 and more give 0
  kShiftRight = 19,
  kMean = 20,  // variadic only
};
constexpr int32_t kNumBinaryOps = 21;

// Also of variadic steps, whose operators are kAdd, kMax, kMin and kMean over any number of inputs.
struct BinaryParams {
  int32_t op = 0;
  Activation activation;  // applied to the result; float dtypes only
};

// The plain formulas.
double unary_value(UnaryOp op, double x, double a, double b);
double binary_value(BinaryOp op, double a, double b);
// Wrapping 64-bit arithmetic; `is_unsigned` reads the bits as uint64.
int64_t unary_value_i64(UnaryOp op, int64_t x, bool is_unsigned);
int64_t binary_value_i64(BinaryOp op, int64_t a, int64_t b, bool is_unsigned);

// True if unary_f32 (binary_f32) has a vector form of the operator.
inline bool has_vector_form(UnaryOp op) { return op <= UnaryOp::kSign || op == UnaryOp::kCube; }
inline bool has_vector_form(BinaryOp op) { return op <= BinaryOp::kPRelu; }

}  // namespace kiln::ops::pointwise
