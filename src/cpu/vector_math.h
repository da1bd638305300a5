// exp, log, sigmoid, silu, tanh and erf of four floats at a time, accurate to a few units in the last place.
//
// Range reductions and polynomials after Stephen Moshier's Cephes library (single precision: expf, logf,
// tanhf, ndtrf) with the constant ln 2 split in two (Cody and Waite 1980). Infinities give their limits, NaN
// gives NaN. A lane's result depends on that lane alone, so a tail may be padded with anything.
#pragma once

#include "cpu/simd.h"

namespace kiln {

namespace vector_math_detail {

// Constants of exp. Loaded rather than written in place: V8 makes a vector constant of three instructions wherever it
// is used, a load is one. In a file of their own, so that the compiler cannot turn the loads into constants.
struct ExpConstants {
  float low, high;  // of exp_saturated
  float round;      // 1.5 * 2^23: adding it rounds to an integer
  float log2_e, ln2_high, ln2_low;
  float p[6];
  float one;
};
extern const ExpConstants kExp;

inline v128_t splat_of(const float& constant) { return wasm_v128_load32_splat(&constant); }

// x = n * ln 2 + r, |r| <= ln 2 / 2; returns e^r, with n as an integer in each lane. |x| <= 104 or NaN.
inline v128_t exp_reduced(v128_t x, v128_t* n) {
  const v128_t round = splat_of(kExp.round);
  const v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(x, splat_of(kExp.log2_e)), round);
  *n = wasm_i32x4_sub(shifted, round);
  const v128_t k = wasm_f32x4_sub(shifted, round);
  v128_t r = f32x4_madd(k, splat_of(kExp.ln2_high), x);
  r = f32x4_madd(k, splat_of(kExp.ln2_low), r);
  v128_t p = splat_of(kExp.p[0]);
  KILN_UNROLL
  for (int i = 1; i < 6; ++i) p = f32x4_madd(p, r, splat_of(kExp.p[i]));
  return wasm_f32x4_add(f32x4_madd(wasm_f32x4_mul(p, r), r, r), splat_of(kExp.one));
}

// 2^n for n in [-126, 128], as bits; 128 gives infinity.
inline v128_t pow2_i32x4(v128_t n) { return wasm_i32x4_shl(wasm_i32x4_add(n, wasm_i32x4_const_splat(127)), 23); }

// e^x where it is a normal number; x above 88.4 gives infinity, x below -87.3 the smallest normal number. Fit
// for 1 / (1 + e^x) and the like, which cannot tell.
inline v128_t exp_saturated(v128_t x) {
  x = wasm_f32x4_pmin(wasm_f32x4_pmax(x, splat_of(kExp.low)), splat_of(kExp.high));
  v128_t n;
  const v128_t y = exp_reduced(x, &n);
  return wasm_f32x4_mul(y, pow2_i32x4(n));
}

}  // namespace vector_math_detail

// e^x, gradual underflow and overflow to infinity included.
inline v128_t exp_f32x4(v128_t x) {
  x = wasm_f32x4_pmin(wasm_f32x4_pmax(x, wasm_f32x4_const_splat(-104.0f)), wasm_f32x4_const_splat(89.0f));
  v128_t n;
  const v128_t y = vector_math_detail::exp_reduced(x, &n);
  const v128_t half = wasm_i32x4_shr(n, 1);
  return wasm_f32x4_mul(wasm_f32x4_mul(y, vector_math_detail::pow2_i32x4(half)),
                        vector_math_detail::pow2_i32x4(wasm_i32x4_sub(n, half)));
}

// e^x with 0 below e^-87, close to the smallest normal number: for sums of x <= 0, where subnormal terms would cost
// dearly.
inline v128_t exp_flushed_f32x4(v128_t x) {
  const v128_t is_tiny = wasm_f32x4_lt(x, vector_math_detail::splat_of(vector_math_detail::kExp.low));
  return wasm_v128_andnot(vector_math_detail::exp_saturated(x), is_tiny);
}

// 1 / (1 + e^-x)
inline v128_t sigmoid_f32x4(v128_t x) {
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  return wasm_f32x4_div(one, wasm_f32x4_add(one, vector_math_detail::exp_saturated(wasm_f32x4_neg(x))));
}

// x / (1 + e^-x)
inline v128_t silu_f32x4(v128_t x) {
  const v128_t one = vector_math_detail::splat_of(vector_math_detail::kExp.one);
  return wasm_f32x4_div(x, wasm_f32x4_add(one, vector_math_detail::exp_saturated(wasm_f32x4_neg(x))));
}

// x + x^3 P(x^2) for |x| < 0.625, else sign(x) (1 - 2 / (e^2|x| + 1)).
inline v128_t tanh_f32x4(v128_t x) {
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  const v128_t size = wasm_f32x4_abs(x);
  const v128_t z = wasm_f32x4_mul(x, x);
  v128_t p = wasm_f32x4_const_splat(-5.70498872745e-3f);
  p = f32x4_madd(p, z, wasm_f32x4_const_splat(2.06390887954e-2f));
  p = f32x4_madd(p, z, wasm_f32x4_const_splat(-5.37397155531e-2f));
  p = f32x4_madd(p, z, wasm_f32x4_const_splat(1.33314422036e-1f));
  p = f32x4_madd(p, z, wasm_f32x4_const_splat(-3.33332819422e-1f));
  const v128_t small = f32x4_madd(wasm_f32x4_mul(p, z), x, x);
  const v128_t e = vector_math_detail::exp_saturated(wasm_f32x4_add(size, size));
  v128_t large = wasm_f32x4_sub(one, wasm_f32x4_div(wasm_f32x4_const_splat(2.0f), wasm_f32x4_add(e, one)));
  large = wasm_v128_or(large, wasm_v128_and(x, wasm_i32x4_splat(INT32_MIN)));
  return wasm_v128_bitselect(large, small, wasm_f32x4_ge(size, wasm_f32x4_const_splat(0.625f)));
}

// x T(x^2) for |x| < 1, else sign(x) (1 - e^-x^2 P(1/x^2) / |x|) with one polynomial below 2 and one above.
inline v128_t erf_f32x4(v128_t x) {
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  const v128_t size = wasm_f32x4_abs(x);
  const v128_t z = wasm_f32x4_mul(x, x);
  v128_t t = wasm_f32x4_const_splat(7.853861353153693e-5f);
  t = f32x4_madd(t, z, wasm_f32x4_const_splat(-8.010193625184903e-4f));
  t = f32x4_madd(t, z, wasm_f32x4_const_splat(5.188327685732524e-3f));
  t = f32x4_madd(t, z, wasm_f32x4_const_splat(-2.685381193529856e-2f));
  t = f32x4_madd(t, z, wasm_f32x4_const_splat(1.128358514861418e-1f));
  t = f32x4_madd(t, z, wasm_f32x4_const_splat(-3.761262582423300e-1f));
  t = f32x4_madd(t, z, wasm_f32x4_const_splat(1.128379165726710e+0f));
  const v128_t small = wasm_f32x4_mul(t, x);

  // Above 4 erf is 1 in single precision; the clamp keeps 1/x and e^-x^2 away from their limits.
  const v128_t far = wasm_f32x4_pmin(wasm_f32x4_pmax(size, one), wasm_f32x4_const_splat(5.0f));
  const v128_t q = wasm_f32x4_div(one, far);
  const v128_t y = wasm_f32x4_mul(q, q);
  v128_t p = wasm_f32x4_const_splat(2.326819970068386e-2f);
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(-1.387039388740657e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(3.687424674597105e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(-5.824733027278666e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(6.210004621745983e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(-4.944515323274145e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(3.404879937665872e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(-2.741127028184656e-1f));
  p = f32x4_madd(p, y, wasm_f32x4_const_splat(5.638259427386472e-1f));
  v128_t r = wasm_f32x4_const_splat(-1.047766399936249e+1f);
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(1.297719955372516e+1f));
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(-7.495518717768503e+0f));
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(2.921019019210786e+0f));
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(-1.015265279202700e+0f));
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(4.218463358204948e-1f));
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(-2.820767439740514e-1f));
  r = f32x4_madd(r, y, wasm_f32x4_const_splat(5.641895067754075e-1f));
  const v128_t poly = wasm_v128_bitselect(r, p, wasm_f32x4_ge(size, wasm_f32x4_const_splat(2.0f)));
  const v128_t tail = wasm_f32x4_mul(wasm_f32x4_mul(exp_f32x4(wasm_f32x4_neg(wasm_f32x4_mul(far, far))), q), poly);
  const v128_t large = wasm_v128_or(wasm_f32x4_sub(one, tail), wasm_v128_and(x, wasm_i32x4_splat(INT32_MIN)));
  return wasm_v128_bitselect(large, small, wasm_f32x4_ge(size, one));
}

// Natural logarithm: x = 2^n m, m in [sqrt(1/2), sqrt 2), log x = n ln 2 + log m. Zero gives -inf, x < 0 NaN.
inline v128_t log_f32x4(v128_t x) {
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  const v128_t tiny = wasm_f32x4_lt(x, wasm_f32x4_const_splat(1.17549435e-38f));  // subnormal: scale by 2^23
  const v128_t scaled = wasm_v128_bitselect(wasm_f32x4_mul(x, wasm_f32x4_const_splat(8388608.0f)), x, tiny);
  // Subtracting the bits of sqrt(1/2) leaves n in the exponent field, rounding towards m's range.
  const v128_t root_half = wasm_i32x4_const_splat(0x3f3504f3);
  const v128_t offset = wasm_i32x4_sub(scaled, root_half);
  const v128_t n = wasm_i32x4_shr(offset, 23);
  const v128_t mantissa = wasm_i32x4_add(wasm_v128_and(offset, wasm_i32x4_const_splat(0x007fffff)), root_half);
  const v128_t bias = wasm_v128_and(tiny, wasm_f32x4_const_splat(23.0f));
  const v128_t k = wasm_f32x4_sub(wasm_f32x4_convert_i32x4(n), bias);
  const v128_t m = wasm_f32x4_sub(mantissa, one);
  const v128_t z = wasm_f32x4_mul(m, m);
  v128_t p = wasm_f32x4_const_splat(7.0376836292e-2f);
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(-1.1514610310e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(1.1676998740e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(-1.2420140846e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(1.4249322787e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(-1.6668057665e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(2.0000714765e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(-2.4999993993e-1f));
  p = f32x4_madd(p, m, wasm_f32x4_const_splat(3.3333331174e-1f));
  v128_t y = wasm_f32x4_mul(wasm_f32x4_mul(p, m), z);
  y = f32x4_madd(k, wasm_f32x4_const_splat(-2.12194440e-4f), y);
  y = f32x4_madd(z, wasm_f32x4_const_splat(-0.5f), y);
  y = f32x4_madd(k, wasm_f32x4_const_splat(0.693359375f), wasm_f32x4_add(m, y));
  const v128_t infinity = wasm_f32x4_splat(__builtin_inff());
  y = wasm_v128_bitselect(x, y, wasm_v128_or(wasm_f32x4_eq(x, infinity), wasm_f32x4_ne(x, x)));
  y = wasm_v128_bitselect(wasm_f32x4_neg(infinity), y, wasm_f32x4_eq(x, wasm_f32x4_const_splat(0.0f)));
  return wasm_v128_bitselect(wasm_f32x4_splat(__builtin_nanf("")), y, wasm_f32x4_lt(x, wasm_f32x4_const_splat(0.0f)));
}

// One value through a vector function: the same bits as a lane of the vector form.
template <v128_t (*kFunction)(v128_t)>
inline float scalar_f32(float x) {
  return wasm_f32x4_extract_lane(kFunction(wasm_f32x4_splat(x)), 0);
}

}  // namespace kiln
