// Arranges Concats so that each value is copied, or placed, once.
#pragma once

#include "compile/compile.h"

namespace kiln {

// - Concat(…, all outputs of a Split in order, …) along the same axis: the Split's input instead (YOLO's C2f)
// - Concat(Concat(a, b), c) where nothing else reads the inner one: Concat(a, b, c)
// - Concat(a, b, c) where there is a Concat(a, b): Concat(Concat(a, b), c) (DenseNet)
Result<int> merge_concats(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
