// Brings operators that have several spellings into the one that later passes and kernels know best.
#pragma once

#include "compile/compile.h"

namespace kiln {

//   Sub of a constant -> Add; Div by a constant power of two -> Mul (both give the same bits); f32
//   ReduceMean (ReduceMax) over all spatial axes of an image -> GlobalAveragePool (GlobalMaxPool), and Reshape if keepdims = 0
//   Softmax and LogSoftmax before opset 13 whose axis is the last that is not 1 -> the form of opset 13
//   Gemm of constant weights with alpha, beta, transposes of A only where they matter; MatMul of a matrix with constant
//   weights and Add of a constant row -> Gemm
Result<int> lower_arithmetic(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
