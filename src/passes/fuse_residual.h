// Lets a convolution add a second operand in its epilogue.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Add of two values of one shape, one of them made by a Conv and read by nothing else, becomes the Conv's
// input 3:
// - residual = "before_activation", act(conv + r): from Add, with or without activation, behind a plain Conv
// - residual = "after_activation", act(conv) + r: from a plain Add behind a Conv with activation
//
// Of two such Convs the later one takes the other's output. Nodes are sorted anew, as the residual has to
// come first.
Result<int> fuse_residual(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
