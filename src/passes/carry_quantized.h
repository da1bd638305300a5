// Folded constants that remember the integers they were made of (Value::quantized).
#pragma once

#include "graph/graph.h"

namespace kiln {

// The node's output has been folded: records what it was made of if the node is a DequantizeLinear of 8-bit
// integers to f32, or only moves the elements of such a constant (Transpose, Reshape and its kin, Identity).
void carry_quantized(Graph& graph, const Node& node);

}  // namespace kiln
