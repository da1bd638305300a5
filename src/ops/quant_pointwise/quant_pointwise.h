// Pointwise operators on 8-bit numbers; only passes make them (passes/fuse_quantized).
//
// kiln.QuantTable: y = table[x], with x's bits as an unsigned index; input 1 is the table, 256 constants of y's dtype.
// Any function of one number, or a change of scale.
//
// kiln.QuantBinary, `function` "Add" or "Mul", with NumPy broadcasting; attributes `a_scale`, `a_zero`, `b_scale`,
// `b_zero`, `y_scale`, `y_zero`, `y_dtype` ("u8" or "i8"), `activation` Clip. To the bit, each operation rounded to
// f32:
//   Add: s = f32(a - a_zero) * (a_scale / y_scale) + f32(b - b_zero) * (b_scale / y_scale)
//   Mul: s = f32((a - a_zero) * (b - b_zero)) * (a_scale * b_scale / y_scale)
//   y = clamp(round half to even (s), low, high) + y_zero
//
// Kernels: quant_table, quant_binary. All operands may be channel views.
#pragma once

#include <cstdint>

namespace kiln::ops::quant_pointwise {

enum class QuantFunction : int32_t { kAdd = 0, kMul = 1 };

struct QuantBinaryParams {
  int32_t function = 0;
  int32_t a_zero = 0, b_zero = 0, y_zero = 0;
  float a_multiplier = 1, b_multiplier = 1;  // of Mul: a's alone
  float low = 0, high = 0;                   // of rounded y - y_zero
};

}  // namespace kiln::ops::quant_pointwise
