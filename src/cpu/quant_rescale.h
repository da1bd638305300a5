// From the 32-bit sums of quantised kernels to their outputs.
//
// An output is made of its sum as follows, each operation rounded to f32 by itself (never fused):
//   s = f32(sum) * multiplier[column] (+ f32(residual - residual_zero) * residual_multiplier, before the activation)
//   with an activation: s = activation(s) * gain (+ the residual, after it)      cpu/exact_activation.h
//   8-bit:  y = clamp(round(s), low, high) + zero      round: half to even, as ONNX's QuantizeLinear
//   f32:    y = clamp(s, low, high)
// onnxruntime rescales in the same way (a float multiplication, nearest even), so results agree but for ties.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "cpu/activation_kind.h"
#include "cpu/exact_activation.h"
#include "cpu/simd.h"

namespace kiln {

constexpr int32_t kQuantColumns = 8;  // outputs at a time

struct QuantRescale {
  const float* multiplier = nullptr;  // a column, padded to whole panels
  Activation activation;              // what bounds are not enough for
  bool computes = false;              // that activation
  float gain_of_all = 1;              // times what it gives
  const float* gain = nullptr;        // or one a column
  float low = 0, high = 0;
  int32_t zero = 0;
  DType dtype = DType::kU8;  // of y: kU8, kI8 or kF32
  // The residual, of y's shape: kU8 or kI8.
  DType residual_dtype = DType::kInvalid;
  bool residual_after = false;
  int32_t residual_zero = 0;
  float residual_multiplier = 0;
};

inline size_t rescaled_bytes(const QuantRescale& r) { return r.dtype == DType::kF32 ? 4 : 1; }

// Eight outputs, in the columns from `column` on. The bounds lie within what the dtype holds (checked at load), so
// narrowing does not saturate.
void rescale_eight(const QuantRescale& r, v128_t sum0, v128_t sum1, int64_t column, const void* residual, void* y);

// The same for fewer than eight.
void rescale_few(const QuantRescale& r, v128_t sum0, v128_t sum1, int64_t column, int32_t count, const void* residual,
                 void* y);

// What most outputs are, to be inlined: u8 within bounds, without residual.
struct BoundedRescale {
  explicit BoundedRescale(const QuantRescale& r)
      : applies(r.dtype == DType::kU8 && !r.computes && r.residual_dtype == DType::kInvalid),
        low(wasm_f32x4_splat(r.low)),
        high(wasm_f32x4_splat(r.high)),
        zero(wasm_i16x8_splat(static_cast<int16_t>(r.zero))),
        round(exact_detail::splat(exact_detail::kExact.round)) {}

  void store(v128_t sum0, v128_t sum1, const float* multiplier, void* y) const {
    const v128_t q0 = rounded(wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum0), wasm_v128_load(multiplier)));
    const v128_t q1 = rounded(wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum1), wasm_v128_load(multiplier + 4)));
    const v128_t wide = wasm_i16x8_add(wasm_i16x8_narrow_i32x4(q0, q1), zero);
    wasm_v128_store64_lane(y, wasm_u8x16_narrow_i16x8(wide, wide), 0);
  }

  bool applies;
  v128_t low, high, zero, round;

 private:
  v128_t rounded(v128_t s) const {
    const v128_t bounded = wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, s));
    return wasm_i32x4_sub(wasm_f32x4_add(bounded, round), round);
  }
};

// The plain form for one output: the reference.
void rescale_sum(const QuantRescale& r, int32_t sum, int32_t column, const void* residual, void* y);

}  // namespace kiln
