// Follows the batch axis through a graph, to tell whether a batch may be padded: whether each row of the outputs
// depends on its own row of the inputs alone.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace kiln {

// True if axis 0 of every graph output is the batch of `inputs` (axis 0 of each), and no operator looks across it. Only
// what is known to keep rows apart counts: an operator that this file does not know, a Reshape that merges the batch
// with another axis, or a Softmax, reduction or MatMul along it give false. The graph must have static shapes, with
// more than one row.
bool rows_are_independent(const Graph& graph, const std::vector<ValueId>& inputs);

// True if a number made of tensors' sizes (Shape, Size) is reckoned with data, as in x / x.shape[0]: such a result
// depends on how many rows there are. Shapes, slices and other arguments of that kind do not count. The graph is the
// imported one: folding turns sizes into constants.
bool sizes_meet_data(const Graph& graph);

}  // namespace kiln
