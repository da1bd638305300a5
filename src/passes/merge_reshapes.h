// Makes one Reshape of several.
#pragma once

#include "compile/compile.h"

namespace kiln {

// A Reshape, Flatten, Squeeze or Unsqueeze that reads another one's output becomes a Reshape of that one's
// input; with the shape that the input had already, it goes.
Result<int> merge_reshapes(Graph& graph, const OpRegistry& ops);

// The node keeps the elements and their order, whatever it does to the shape.
bool is_reshape(const Node& node);

}  // namespace kiln
