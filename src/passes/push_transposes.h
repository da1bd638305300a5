// Moves Transposes through the graph until they meet and vanish, or are where they move the fewest bytes.
#pragma once

#include "compile/compile.h"

namespace kiln {

// For every Transpose in turn relayout() decides whether the nodes behind it (or before it) had better work
// on permuted tensors; it is asked again until nothing gets cheaper. The bytes that all Transposes together
// move never grow, and get smaller with each change, so that this ends. Transposes that only move axes of
// length 1 become Reshapes.
Result<int> push_transposes(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
