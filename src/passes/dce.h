// Drops what nothing needs.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Nodes none of whose outputs lead to a graph output, and their values; graph inputs stay. Optional outputs
// that nothing reads (Indices of MaxPool, the mask of Dropout, statistics of BatchNormalization and
// LayerNormalization) become absent, so that quicker kernels fit. Returns how many nodes and outputs went.
Result<int> dce(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
