// kiln.QuantConv: a convolution or product on 8-bit numbers, fused with what makes 8-bit numbers of its sums again.
//
// real y = act(b[o] + sum over the window of real x * real w [+ real r]) [+ real r], with real x = (x - x_zero) *
// x_scale, real w = w * w_scale[o], and so on; the arithmetic to the bit is cpu/quant_gemm.h's. Channels last: x is
// (N, H, W, C), (N, W, C) or, a plain product, (N, C). Only passes make it (passes/fuse_quantized).
//
// Inputs: x (u8 or i8), w (i8; O, C/G, KH, KW: ONNX order), optional bias (f32, O), optional residual r (u8 or i8, y's
// shape), w_scale (f32, O), optional y_gain (f32, O; not with a residual or real y): y counts y_gain[o] times as finely
// in channel o. Attributes: Conv's; `activation*` and `residual` as on a fused Conv; `x_scale`, `x_zero`,
// `r_scale`, `r_zero`; `y_scale`, `y_zero`, `y_dtype` ("u8", "i8", or "f32" for real y).
//
// Kernels (operands: x, packed weights, columns, residual or absent; columns are i32: a bias for each, then the bits of
// an f32 multiplier for each, then, if params say so, of a gain):
//   quant_conv_gemm        weights packed as cpu/quant_gemm.h has them
//   quant_conv_depthwise   one channel a group, no multiplier, at least 8 channels; weights as (pairs of taps, C, 2)
// Padding reads x_zero; biases hold - x_zero * (sum of the column's weights) besides the bias.
#pragma once

#include <cmath>
#include <cstdint>

#include "cpu/quant_gemm.h"
#include "ops/conv/conv.h"

namespace kiln::ops::quant_conv {

struct QuantConvParams {
  conv::ConvParams conv;
  int32_t x_zero = 0;
  float x_scale = 1;
  float sum_unit = 1;       // what a rescaled sum counts: y_scale, or 1 where an activation is computed or y is real
  float y_unit = 1;         // what y counts: y_scale, or 1 for real y
  int32_t computes = 0;     // the activation is computed, not a bound
  int32_t has_gains = 0;    // of columns; else all have 1 / y_unit
  float low = 0, high = 0;  // of rounded y - y_zero, or of real y
  int32_t y_zero = 0;
  int32_t r_zero = 0;
  float r_scale = 1;
};

constexpr int32_t kMaxDepthwiseTaps = 64;

// Whether an activation is computed: Relu is a bound, and so is Clip unless channels count differently.
inline bool is_computed(const Activation& activation, bool has_gain) {
  if (activation.kind == 0) return false;
  if (activation.kind != static_cast<int32_t>(ActivationKind::kClip)) return true;
  return has_gain && !(activation.a == 0 && activation.b > 3e38f);
}

inline float column_multiplier(const QuantConvParams& p, float w_scale) {
  return static_cast<float>(static_cast<double>(p.x_scale) * w_scale / p.sum_unit);
}

// What an output of a computed activation is multiplied by.
inline float column_gain(const QuantConvParams& p, float y_gain) { return y_gain / p.y_unit; }

inline int32_t column_bias(const QuantConvParams& p, float bias, float w_scale, int64_t sum_of_weights) {
  const double units = std::nearbyint(bias / (static_cast<double>(p.x_scale) * w_scale));
  const double bounded = units < -1e9 ? -1e9 : (units > 1e9 ? 1e9 : units);
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(bounded) - p.x_zero * sum_of_weights));
}

// All but the columns' multipliers and gains.
inline QuantRescale make_rescale(const QuantConvParams& p, DType y, DType residual) {
  QuantRescale r;
  r.activation = p.conv.activation;
  r.computes = p.computes != 0;
  r.gain_of_all = 1 / p.y_unit;
  r.low = p.low;
  r.high = p.high;
  r.zero = p.y_zero;
  r.dtype = y;
  r.residual_dtype = residual;
  r.residual_after = p.computes != 0 && p.conv.residual == static_cast<int32_t>(conv::Residual::kAfterActivation);
  r.residual_zero = p.r_zero;
  r.residual_multiplier = p.r_scale / (r.residual_after ? p.y_unit : p.sum_unit);
  return r;
}

}  // namespace kiln::ops::quant_conv
