// Folds what scales and shifts channels into the weights and bias of the convolution before it.
#pragma once

#include "compile/compile.h"

namespace kiln {

// y = scale[c] * x + shift[c] behind a Conv, ConvTranspose, Gemm, or MatMul by a matrix, with constant
// weights becomes w' = scale * w and b' = scale * b + shift, as long as nothing else reads their output. Such
// are BatchNormalization (not in training mode), and Add, Sub, Mul, Div with a constant of one number a
// channel or one for all. Weights that others use as well are copied, not changed. Computed in double,
// rounded once.
Result<int> fold_batch_norm(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
