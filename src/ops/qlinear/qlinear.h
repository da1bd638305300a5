// QLinearConv, QLinearMatMul: y = saturate(round(sum * (x_scale * w_scale / y_scale)) + y_zero_point), sum =
// sum_k (x_k - x_zero_point) * (w_k - w_zero_point) [+ bias]; ConvInteger, MatMulInteger: y = sum. Exact 32-bit
// sums. These and com.microsoft's QLinear operators normally become DequantizeLinear, the float operator and
// QuantizeLinear (passes/expand_qlinear.h); the kernels here run what is left, with every operand known only at
// run time.
//
// Kernels, both of plain loops: qlinear_conv_any (NCHW; params conv::ConvParams), qlinear_matmul_any (params
// matmul::MatmulParams). Operands of both: Slot.
#pragma once

#include "ops/kernel.h"

namespace kiln::ops::qlinear {

// Where the kernels have their operands. The output is i32 (the sum: no scales) or 8-bit.
enum Slot { kX, kW, kXZero, kWZero, kXScale, kWScale, kYScale, kYZero, kBias, kNumSlots };

// The kernels, which the references call with their operands in slots.
void run_conv(const KernelArgs& args);
void run_matmul(const KernelArgs& args);

}  // namespace kiln::ops::qlinear
