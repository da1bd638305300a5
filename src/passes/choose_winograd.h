// Picks the convolutions that Winograd's algorithm runs faster.
#pragma once

#include "compile/compile.h"

namespace kiln {

// NHWC Convs of 3 x 3 with stride 1 get algorithm = "winograd4" (ops/conv/winograd.h) where arithmetic and the traffic
// of the weights, 4 times as large once transformed, promise a fifth less time, and enough of it for the memory. The
// transformed weights of all that are chosen may take the constants' bytes times Graph::prepared_budget: those that
// save most for a byte come first.
Result<int> choose_winograd(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
