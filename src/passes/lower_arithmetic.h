// Brings operators that have several spellings into the one that later passes and kernels know best.
#pragma once

#include "compile/compile.h"

namespace kiln {

// - Sub of a constant becomes Add, Div by a constant power of two Mul (both give the same bits); f32
// - ReduceMean (ReduceMax) over all spatial axes of an image becomes GlobalAveragePool (GlobalMaxPool), with
//   Reshape behind it if keepdims = 0
// - Softmax and LogSoftmax before opset 13 whose axis is the last that is not 1 long get the form of opset 13
// - Sum of two becomes Add
Result<int> lower_arithmetic(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
