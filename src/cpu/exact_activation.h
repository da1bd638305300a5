// Activations to the bit: every operation rounds by itself (nothing is fused), so that plain and relaxed SIMD, native
// code and the scalar twin give the same number. For quantised kernels, whose outputs must not depend on the artefact;
// float kernels have vector_math.h.
//
// e^x: argument reduction and polynomial of S. Moshier's Cephes (expf); x outside [-87, 88] counts as the bound.
#pragma once

#include <cmath>
#include <cstring>

#include "cpu/activation_kind.h"
#include "cpu/simd.h"

namespace kiln {
namespace exact_detail {

constexpr float kLowest = -87.0f, kHighest = 88.0f;
constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
constexpr float kPolynomial[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                  4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

inline v128_t exp_of(v128_t x) {
  x = wasm_f32x4_pmin(wasm_f32x4_splat(kHighest), wasm_f32x4_pmax(wasm_f32x4_splat(kLowest), x));
  const v128_t n = wasm_f32x4_nearest(wasm_f32x4_mul(x, wasm_f32x4_splat(kLog2E)));
  v128_t r = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(kLn2High)));
  r = wasm_f32x4_sub(r, wasm_f32x4_mul(n, wasm_f32x4_splat(kLn2Low)));
  v128_t p = wasm_f32x4_splat(kPolynomial[0]);
  KILN_UNROLL
  for (int i = 1; i < 6; ++i) p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(kPolynomial[i]));
  p = wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_mul(p, r), r), r);
  const v128_t power = wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(127)), 23);
  return wasm_f32x4_mul(wasm_f32x4_add(p, wasm_f32x4_splat(1.0f)), power);
}

inline float exp_of(float x) {
  const float raised = kLowest < x ? x : kLowest;
  x = raised < kHighest ? raised : kHighest;
  const float n = std::nearbyintf(x * kLog2E);
  float r = x - n * kLn2High;
  r = r - n * kLn2Low;
  float p = kPolynomial[0];
  for (int i = 1; i < 6; ++i) p = p * r + kPolynomial[i];
  p = p * r * r + r;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power = 0;
  std::memcpy(&power, &bits, sizeof(power));
  return (p + 1.0f) * power;
}

}  // namespace exact_detail

inline v128_t exact_activation(const Activation& activation, v128_t x) {
  const v128_t one = wasm_f32x4_splat(1.0f);
  const v128_t zero = wasm_f32x4_splat(0.0f);
  const v128_t a = wasm_f32x4_splat(activation.a);
  const v128_t b = wasm_f32x4_splat(activation.b);
  const auto clamp = [](v128_t v, v128_t low, v128_t high) { return wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, v)); };
  switch (static_cast<ActivationKind>(activation.kind)) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kClip:
      return clamp(x, a, b);
    case ActivationKind::kLeakyRelu:
      return wasm_v128_bitselect(wasm_f32x4_mul(a, x), x, wasm_f32x4_lt(x, zero));
    case ActivationKind::kSigmoid:
      return wasm_f32x4_div(one, wasm_f32x4_add(one, exact_detail::exp_of(wasm_f32x4_neg(x))));
    case ActivationKind::kSilu:
      return wasm_f32x4_div(x, wasm_f32x4_add(one, exact_detail::exp_of(wasm_f32x4_neg(x))));
    case ActivationKind::kHardSigmoid:
      return clamp(wasm_f32x4_add(wasm_f32x4_mul(a, x), b), zero, one);
    case ActivationKind::kHardSwish: {
      const v128_t gate = wasm_f32x4_add(wasm_f32x4_mul(x, wasm_f32x4_splat(1.0f / 6)), wasm_f32x4_splat(0.5f));
      return wasm_f32x4_mul(x, clamp(gate, zero, one));
    }
    case ActivationKind::kTanh: {
      const v128_t e = exact_detail::exp_of(wasm_f32x4_mul(x, wasm_f32x4_splat(-2.0f)));
      return wasm_f32x4_sub(wasm_f32x4_div(wasm_f32x4_splat(2.0f), wasm_f32x4_add(one, e)), one);
    }
  }
  return x;
}

// The scalar twin: the same operations in the same order.
inline float exact_activation(const Activation& activation, float x) {
  const auto clamp = [](float v, float low, float high) {
    const float raised = low < v ? v : low;
    return raised < high ? raised : high;
  };
  switch (static_cast<ActivationKind>(activation.kind)) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kClip:
      return clamp(x, activation.a, activation.b);
    case ActivationKind::kLeakyRelu:
      return x < 0 ? activation.a * x : x;
    case ActivationKind::kSigmoid:
      return 1.0f / (1.0f + exact_detail::exp_of(-x));
    case ActivationKind::kSilu:
      return x / (1.0f + exact_detail::exp_of(-x));
    case ActivationKind::kHardSigmoid:
      return clamp(activation.a * x + activation.b, 0.0f, 1.0f);
    case ActivationKind::kHardSwish:
      return x * clamp(x * (1.0f / 6) + 0.5f, 0.0f, 1.0f);
    case ActivationKind::kTanh:
      return 2.0f / (1.0f + exact_detail::exp_of(x * -2.0f)) - 1.0f;
  }
  return x;
}

}  // namespace kiln
