// QuantizeLinear: y = saturate(round(x / scale) + zero_point); DequantizeLinear: y = (x - zero_point) * scale;
// DynamicQuantizeLinear: QuantizeLinear to u8 with the scale and zero point that x's own range gives.
//
// Division and product are one f32 operation each, halves round to even, NaN becomes the lowest integer. Scale
// and zero point are one number, or one for each index of `axis`.
//
// Kernels: quantize_linear and dequantize_linear take every dtype and channel views; f32 to and from 8 bits with
// one scale is SIMD. quantize_dynamic_u8 is f32 alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/tensor.h"

namespace kiln::ops::quantize {

struct QuantizeParams {
  int32_t axis = -1;  // of x that scale and zero point belong to; -1: one for all
};

// What an integer dtype of up to 32 bits holds.
struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};
inline IntegerRange integer_range(DType dtype) {
  const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  const int64_t count = int64_t{1} << bits;
  return is_unsigned(dtype) ? IntegerRange{0, count - 1} : IntegerRange{-count / 2, count / 2 - 1};
}

// saturate(round(quotient) + zero_point).
inline int64_t round_to_range(float quotient, int64_t zero_point, IntegerRange range) {
  const double value = static_cast<double>(std::nearbyint(quotient)) + static_cast<double>(zero_point);
  if (!(value > static_cast<double>(range.min))) return range.min;
  return value < static_cast<double>(range.max) ? static_cast<int64_t>(value) : range.max;
}

// Scale and zero point of x's range, widened to hold 0; a range of nothing but 0 has scale 1.
struct DynamicScale {
  float scale = 1;
  uint8_t zero_point = 0;
};
inline DynamicScale dynamic_scale(float min, float max) {
  DynamicScale result;
  if (!(max > min)) return result;
  result.scale = (max - min) / 255.0f;
  result.zero_point = static_cast<uint8_t>(round_to_range(-min / result.scale, 0, {0, 255}));
  return result;
}

// scale or zero point as an operand that broadcasts to x (of `rank`).
TensorRef along_axis(const TensorRef& table, int rank, int32_t axis);

}  // namespace kiln::ops::quantize
