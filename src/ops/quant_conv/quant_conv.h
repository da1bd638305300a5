// kiln.QuantConv: a convolution or product on 8-bit numbers, fused with what makes 8-bit numbers of its sums again.
//
// real y = act(b[o] + sum over the window of real x * real w [+ real r]) [+ real r], with real x = (x - x_zero) *
// x_scale, real w = w * w_scale[o], and so on; the arithmetic to the bit is cpu/quant_gemm.h's. Channels last: x is
// (N, H, W, C), (N, W, C) or, a plain product, (N, C). Only passes make it (passes/fuse_quantized).
//
// Inputs: x (u8 or i8), w (i8; O, C/G, KH, KW: ONNX order), optional bias (f32, O), optional residual r (u8 or i8, y's
// shape), w_scale (f32, O). Attributes: Conv's; `activation*` and `residual` as on a fused Conv; `x_scale`, `x_zero`,
// `r_scale`, `r_zero`; `y_scale`, `y_zero`, `y_dtype` ("u8", "i8", or "f32" for real y); for activations other than
// Clip `table_low` and `table_high`, between which the activation is tabulated (it is constant or clamped outside).
//
// Kernels (operands: x, table's spec or absent, packed weights, biases i32, multipliers f32, residual or absent):
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
  float sum_unit = 1;  // what a rescaled sum counts: y_scale, or 1 for real y, or the table's step
  float y_unit = 1;    // what y counts: y_scale, or 1 for real y
  int32_t has_table = 0;
  int32_t index_zero = 0;
  float low = 0, high = 0;  // of rounded y - y_zero, or of real y
  int32_t y_zero = 0;
  int32_t r_zero = 0;
  float r_scale = 1;
};

constexpr int32_t kMaxDepthwiseTaps = 64;

// What a table is made of, as a constant operand: f32 [kSpecFloats].
struct TableSpec {
  float kind, a, b;  // Activation
  float step;        // from entry to entry
  float index_zero;
  float unit;  // of what is looked up
};
constexpr int32_t kSpecFloats = 6;
static_assert(sizeof(TableSpec) == kSpecFloats * sizeof(float));

inline float table_entry(const TableSpec& spec, int32_t index) {
  Activation activation;
  activation.kind = static_cast<int32_t>(spec.kind);
  activation.a = spec.a;
  activation.b = spec.b;
  const double x = (static_cast<double>(index) - spec.index_zero) * spec.step;
  return static_cast<float>(apply_activation(activation, x) / spec.unit);
}

inline TableSpec table_spec(const QuantConvParams& p) {
  const Activation& act = p.conv.activation;
  return {static_cast<float>(act.kind), act.a, act.b, p.sum_unit, static_cast<float>(p.index_zero), p.y_unit};
}

inline float column_multiplier(const QuantConvParams& p, float w_scale) {
  return static_cast<float>(static_cast<double>(p.x_scale) * w_scale / p.sum_unit);
}

inline int32_t column_bias(const QuantConvParams& p, float bias, float w_scale, int64_t sum_of_weights) {
  const double units = std::nearbyint(bias / (static_cast<double>(p.x_scale) * w_scale));
  const double bounded = units < -1e9 ? -1e9 : (units > 1e9 ? 1e9 : units);
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(bounded) - p.x_zero * sum_of_weights));
}

// All but the columns' multipliers and the table.
inline QuantRescale make_rescale(const QuantConvParams& p, DType y, DType residual) {
  QuantRescale r;
  r.index_zero = p.index_zero;
  r.low = p.low;
  r.high = p.high;
  r.zero = p.y_zero;
  r.dtype = y;
  r.residual_dtype = residual;
  r.residual_after = p.conv.residual == static_cast<int32_t>(conv::Residual::kAfterActivation);
  r.residual_zero = p.r_zero;
  r.residual_multiplier = p.r_scale / (r.residual_after ? p.y_unit : p.sum_unit);
  return r;
}

}  // namespace kiln::ops::quant_conv
