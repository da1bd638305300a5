// Quantised operators become DequantizeLinear, the float operator and QuantizeLinear, the one form of quantised
// models that later passes and kernels have to know.
#pragma once

#include "compile/compile.h"

namespace kiln {

// QLinearConv, QLinearMatMul (constant scales and zero points) and com.microsoft's QLinear operators, QGemm,
// MatMulIntegerToFloat and DynamicQuantizeMatMul. Constant weights become float constants that remember their
// integers (Value::quantized), an i32 bias becomes bias * x_scale * w_scale.
//
// ConvInteger and MatMulInteger as well, with scale 1, where all that reads the sum is a Cast to f32: beyond 2^24
// the f32 sum rounds, as the Cast would have.
Result<int> expand_qlinear(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
