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

namespace {

// Two vectors at a time, so that their chains of operations overlap.
template <typename F>
void map_f32(float* values, int64_t count, F&& map) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const v128_t low = map(wasm_v128_load(values + i));
    const v128_t high = map(wasm_v128_load(values + i + 4));
    wasm_v128_store(values + i, low);
    wasm_v128_store(values + i + 4, high);
  }
  for (; i + 4 <= count; i += 4) wasm_v128_store(values + i, map(wasm_v128_load(values + i)));
  if (i < count) {
    const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
    float tail[4] = {};
    std::memcpy(tail, values + i, bytes);
    wasm_v128_store(tail, map(wasm_v128_load(tail)));
    std::memcpy(values + i, tail, bytes);
  }
}

}  // namespace

void activate_f32(const Activation& activation, float* values, int64_t count) {
  switch (static_cast<ActivationKind>(activation.kind)) {
    case ActivationKind::kNone:
      return;
    case ActivationKind::kSilu:
      return map_f32(values, count, [](v128_t x) { return silu_f32x4(x); });
    case ActivationKind::kSigmoid:
      return map_f32(values, count, [](v128_t x) { return sigmoid_f32x4(x); });
    default:
      return map_f32(values, count, [&](v128_t x) { return activate_f32x4(activation, x); });
  }
}

void add_f32(const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    wasm_v128_store(to + i, wasm_f32x4_add(wasm_v128_load(to + i), wasm_v128_load(from + i)));
  }
  for (; i < count; ++i) to[i] += from[i];
}

}  // namespace kiln
