#include "cpu/activation_f32.h"

#include <cstring>

namespace kiln {

v128_t activate_slow_f32x4(const Activation& activation, v128_t x) {
  const v128_t zero = wasm_f32x4_const_splat(0.0f);
  const v128_t one = wasm_f32x4_const_splat(1.0f);
  switch (static_cast<ActivationKind>(activation.kind)) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kClip:
      return clip_f32x4(x, wasm_f32x4_splat(activation.a), wasm_f32x4_splat(activation.b));
    case ActivationKind::kLeakyRelu:
      return wasm_v128_bitselect(wasm_f32x4_mul(x, wasm_f32x4_splat(activation.a)), x, wasm_f32x4_lt(x, zero));
    case ActivationKind::kSigmoid:
      return sigmoid_f32x4(x);
    case ActivationKind::kSilu:
      return silu_f32x4(x);
    case ActivationKind::kHardSigmoid:
      return clip_f32x4(f32x4_madd(x, wasm_f32x4_splat(activation.a), wasm_f32x4_splat(activation.b)), zero, one);
    case ActivationKind::kHardSwish:
      return wasm_f32x4_mul(
          x, clip_f32x4(f32x4_madd(x, wasm_f32x4_const_splat(1.0f / 6), wasm_f32x4_const_splat(0.5f)), zero, one));
    case ActivationKind::kTanh:
      return tanh_f32x4(x);
  }
  return x;
}

void activate_f32(const Activation& activation, float* values, int64_t count) {
  if (activation.kind == 0) return;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) wasm_v128_store(values + i, activate_f32x4(activation, wasm_v128_load(values + i)));
  if (i < count) {
    const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
    float tail[4] = {};
    std::memcpy(tail, values + i, bytes);
    wasm_v128_store(tail, activate_f32x4(activation, wasm_v128_load(tail)));
    std::memcpy(values + i, tail, bytes);
  }
}

}  // namespace kiln
