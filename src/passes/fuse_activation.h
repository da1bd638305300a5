// Lets the node before an activation apply it in its epilogue.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Relu, Clip with constant bounds, LeakyRelu, Sigmoid, kiln.Silu, HardSigmoid, HardSwish and Tanh on f32 that
// are the only readers of a Conv, ConvTranspose, Gemm, MatMul, Add, Sub, Mul or Div without activation become
// its attributes `activation`, `activation_a`, `activation_b` (ops/activation.h). Reshapes and Transposes may
// stand between the two. A residual that is already fused must come before the activation.
Result<int> fuse_activation(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
