#include "cpu/quant_rescale.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kiln {

namespace rescale_detail {

inline v128_t clamp_f32x4(v128_t x, v128_t low, v128_t high) {
  return wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, x));  // NaN gives a bound
}

inline float clamp_f32(float x, float low, float high) {
  const float raised = low < x ? x : low;
  return raised < high ? raised : high;
}

// Residuals less their zero as f32, times the multiplier.
inline void load_residual(const QuantRescale& r, const void* residual, v128_t added[2]) {
  const v128_t bytes = wasm_v128_load64_zero(residual);
  const v128_t wide =
      r.residual_dtype == DType::kI8 ? wasm_i16x8_extend_low_i8x16(bytes) : wasm_u16x8_extend_low_u8x16(bytes);
  const v128_t centred = wasm_i16x8_sub(wide, wasm_i16x8_splat(static_cast<int16_t>(r.residual_zero)));
  const v128_t scale = wasm_f32x4_splat(r.residual_multiplier);
  added[0] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(centred)), scale);
  added[1] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(centred)), scale);
}

}  // namespace rescale_detail

void rescale_eight(const QuantRescale& r, v128_t sum0, v128_t sum1, int64_t column, const void* residual, void* y) {
  const float* multiplier = r.multiplier + column;
  v128_t s[2] = {wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum0), wasm_v128_load(multiplier)),
                 wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum1), wasm_v128_load(multiplier + 4))};
  v128_t added[2];
  const bool has_residual = r.residual_dtype != DType::kInvalid;
  if (has_residual) rescale_detail::load_residual(r, residual, added);
  if (has_residual && !r.residual_after) {
    s[0] = wasm_f32x4_add(s[0], added[0]);
    s[1] = wasm_f32x4_add(s[1], added[1]);
  }
  if (r.computes) {
    const v128_t same = wasm_f32x4_splat(r.gain_of_all);
    const v128_t gain0 = r.gain != nullptr ? wasm_v128_load(r.gain + column) : same;
    const v128_t gain1 = r.gain != nullptr ? wasm_v128_load(r.gain + column + 4) : same;
    s[0] = wasm_f32x4_mul(exact_activation(r.activation, s[0]), gain0);
    s[1] = wasm_f32x4_mul(exact_activation(r.activation, s[1]), gain1);
    if (has_residual && r.residual_after) {
      s[0] = wasm_f32x4_add(s[0], added[0]);
      s[1] = wasm_f32x4_add(s[1], added[1]);
    }
  }
  const v128_t low = wasm_f32x4_splat(r.low);
  const v128_t high = wasm_f32x4_splat(r.high);
  if (r.dtype == DType::kF32) {
    wasm_v128_store(y, rescale_detail::clamp_f32x4(s[0], low, high));
    wasm_v128_store(static_cast<float*>(y) + 4, rescale_detail::clamp_f32x4(s[1], low, high));
    return;
  }
  // Bounds are integers, so that rounding may follow them: adding 1.5 * 2^23 leaves the nearest one in the lower bits.
  const v128_t round = exact_detail::splat(exact_detail::kExact.round);
  const auto rounded = [&](v128_t v) {
    return wasm_i32x4_sub(wasm_f32x4_add(rescale_detail::clamp_f32x4(v, low, high), round), round);
  };
  const v128_t q0 = rounded(s[0]);
  const v128_t q1 = rounded(s[1]);
  const v128_t wide = wasm_i16x8_add(wasm_i16x8_narrow_i32x4(q0, q1), wasm_i16x8_splat(static_cast<int16_t>(r.zero)));
  const v128_t bytes =
      r.dtype == DType::kI8 ? wasm_i8x16_narrow_i16x8(wide, wide) : wasm_u8x16_narrow_i16x8(wide, wide);
  wasm_v128_store64_lane(y, bytes, 0);
}

// By way of copies.
void rescale_few(const QuantRescale& r, v128_t sum0, v128_t sum1, int64_t column, int32_t count, const void* residual,
                 void* y) {
  alignas(16) char in[8] = {};
  alignas(16) char out[32];
  if (residual != nullptr) std::memcpy(in, residual, static_cast<size_t>(count));
  rescale_eight(r, sum0, sum1, column, in, out);
  std::memcpy(y, out, static_cast<size_t>(count) * rescaled_bytes(r));
}

void rescale_sum(const QuantRescale& r, int32_t sum, int32_t column, const void* residual, void* y) {
  const bool has_residual = r.residual_dtype != DType::kInvalid;
  float added = 0;
  if (has_residual) {
    const int32_t value = r.residual_dtype == DType::kI8 ? static_cast<const int8_t*>(residual)[0]
                                                         : static_cast<const uint8_t*>(residual)[0];
    added = static_cast<float>(value - r.residual_zero) * r.residual_multiplier;
  }
  float s = static_cast<float>(sum) * r.multiplier[column];
  if (has_residual && !r.residual_after) s = s + added;
  if (r.computes) {
    s = exact_activation(r.activation, s) * (r.gain != nullptr ? r.gain[column] : r.gain_of_all);
    if (has_residual && r.residual_after) s = s + added;
  }
  if (r.dtype == DType::kF32) {
    *static_cast<float*>(y) = rescale_detail::clamp_f32(s, r.low, r.high);
    return;
  }
  const int32_t q = static_cast<int32_t>(rescale_detail::clamp_f32(std::nearbyintf(s), r.low, r.high)) + r.zero;
  *static_cast<uint8_t*>(y) = static_cast<uint8_t>(q);
}

}  // namespace kiln
