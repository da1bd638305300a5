// Takes out nodes that change nothing.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Identity, Dropout, Cast to the same dtype; Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Slice, Pad,
// Transpose, Resize that leave the shape and the order of elements; Concat, Split, Sum, Max, Min, Mean of one
// operand; Add of 0, Mul by 1. A graph output keeps its name; a node stays where a graph output would
// otherwise be a graph input, a constant or another graph output.
Result<int> drop_identity(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
