// DequantizeLinear -> operator -> QuantizeLinear becomes an operator on 8-bit numbers.
#pragma once

#include "graph/graph.h"
#include "ops/definition.h"

namespace kiln {

// In this order, each to an end:
//   1. Operators that only move numbers (Transpose, Reshape, Concat of one scale, MaxPool, …) take the 8-bit numbers
//      that they had read through DequantizeLinear.
//   2. Conv, Gemm and MatMul whose input is dequantised and whose weights are integers (Value::quantized) become
//      kiln.QuantConv: with an 8-bit output where all that reads it is QuantizeLinear of one scale, with a real one
//      otherwise. Add and Mul become kiln.QuantBinary, functions of one number kiln.QuantTable.
//   3. DequantizeLinear -> QuantizeLinear goes, or, between two scales, becomes a table.
// Only scales of a whole tensor that are constants are understood; everything else stays as ONNX says it.
// Run after the layout passes; returns how many operators became 8-bit ones.
Result<int> fuse_quantized(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
