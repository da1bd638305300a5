// Computes once what a graph computes twice.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Constants with the same type and bits become one; nodes with the same operator, attributes and inputs
// become one, the first; a later one that makes a graph output stays. Returns how many nodes and constants went.
Result<int> cse(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
