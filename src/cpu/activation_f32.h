// The activations of cpu/activation_kind.h on four floats at a time, for the epilogues of kernels.
#pragma once

#include "cpu/activation_kind.h"
#include "cpu/vector_math.h"

namespace kiln {

inline v128_t clip_f32x4(v128_t x, v128_t lo, v128_t hi) { return wasm_f32x4_pmin(wasm_f32x4_pmax(x, lo), hi); }

// A switch on the kind for every vector: fine where the four values cost much more, as after a dot product.
// The transcendental kinds are out of line, so that the epilogues stay small.
v128_t activate_slow_f32x4(const Activation& activation, v128_t x);

inline v128_t activate_f32x4(const Activation& activation, v128_t x) {
  if (activation.kind == 0) return x;
  if (activation.kind == static_cast<int32_t>(ActivationKind::kClip)) {
    return clip_f32x4(x, wasm_f32x4_splat(activation.a), wasm_f32x4_splat(activation.b));
  }
  return activate_slow_f32x4(activation, x);
}

// In place over `count` floats anywhere; a tail of fewer than four gives the same bits as full vectors.
void activate_f32(const Activation& activation, float* values, int64_t count);

// to[i] += from[i]
void add_f32(const float* from, int64_t count, float* to);

}  // namespace kiln
