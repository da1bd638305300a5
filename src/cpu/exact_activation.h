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

// In memory, since V8 takes four instructions to make a vector constant and one to load it.
struct Constants {
  float lowest, highest;
  float log2_e;
  float
      round;  // 1.5 * 2^23: added to a number below 2^22 it leaves the nearest integer in the lower bits, half to even
  float ln2_high, ln2_low;
  float polynomial[6];
  float one, half, two, sixth;
};
extern const Constants kExact;

inline v128_t splat(const float& constant) { return wasm_v128_load32_splat(&constant); }

inline v128_t exp_of(v128_t x) {
  x = wasm_f32x4_pmin(splat(kExact.highest), wasm_f32x4_pmax(splat(kExact.lowest), x));
  const v128_t round = splat(kExact.round);
  const v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(x, splat(kExact.log2_e)), round);
  const v128_t n = wasm_f32x4_sub(shifted, round);
  v128_t r = wasm_f32x4_sub(x, wasm_f32x4_mul(n, splat(kExact.ln2_high)));
  r = wasm_f32x4_sub(r, wasm_f32x4_mul(n, splat(kExact.ln2_low)));
  v128_t p = splat(kExact.polynomial[0]);
  KILN_UNROLL
  for (int i = 1; i < 6; ++i) p = wasm_f32x4_add(wasm_f32x4_mul(p, r), splat(kExact.polynomial[i]));
  p = wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_mul(p, r), r), r);
  // 2^n: n into the exponent of 1.
  const v128_t exponent = wasm_i32x4_shl(wasm_i32x4_sub(shifted, round), 23);
  const v128_t one = splat(kExact.one);
  return wasm_f32x4_mul(wasm_f32x4_add(p, one), wasm_i32x4_add(exponent, one));
}

inline float exp_of(float x) {
  const float raised = kExact.lowest < x ? x : kExact.lowest;
  x = raised < kExact.highest ? raised : kExact.highest;
  const float n = std::nearbyintf(x * kExact.log2_e);
  float r = x - n * kExact.ln2_high;
  r = r - n * kExact.ln2_low;
  float p = kExact.polynomial[0];
  for (int i = 1; i < 6; ++i) p = p * r + kExact.polynomial[i];
  p = p * r * r + r;
  const int32_t bits = (static_cast<int32_t>(n) + 127) * (1 << 23);
  float power = 0;
  std::memcpy(&power, &bits, sizeof(power));
  return (p + 1.0f) * power;
}

}  // namespace exact_detail

inline v128_t exact_activation(const Activation& activation, v128_t x) {
  using exact_detail::kExact;
  using exact_detail::splat;
  const v128_t one = splat(kExact.one);
  const v128_t zero = wasm_f32x4_splat(0.0f);
  const v128_t a = splat(activation.a);
  const v128_t b = splat(activation.b);
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
      const v128_t gate = wasm_f32x4_add(wasm_f32x4_mul(x, splat(kExact.sixth)), splat(kExact.half));
      return wasm_f32x4_mul(x, clamp(gate, zero, one));
    }
    case ActivationKind::kTanh: {
      const v128_t e = exact_detail::exp_of(wasm_f32x4_neg(wasm_f32x4_add(x, x)));
      return wasm_f32x4_sub(wasm_f32x4_div(splat(kExact.two), wasm_f32x4_add(one, e)), one);
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
