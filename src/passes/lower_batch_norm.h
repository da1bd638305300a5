// Turns BatchNormalizations that no convolution took in into operators that fuse with their neighbours.
#pragma once

#include "compile/compile.h"

namespace kiln {

// On f32 images of four or more channels: a 1x1 depthwise Conv with bias, which takes in the activation
// behind it. Anything else: Mul and Add with constants. BatchNormalization in training mode or with
// parameters that are not constant stays.
Result<int> lower_batch_norm(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
