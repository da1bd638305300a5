// Takes out channels that hold nothing: all of their weights are zero, or as good as that.
#pragma once

#include "compile/compile.h"

namespace kiln {

// An output channel of a Conv, ConvTranspose, Gemm or MatMul with constant weights goes, with everything that only
// serves it, where the weights are all zero (so that it holds one number, its bias behind the activation) or nothing
// reads it. Channels that element-wise operators, pools, Resize, Reshape to (n, c * m, …), depthwise convolutions, Pad,
// Slice, Split and Concat tie together go together or not at all: those of a residual sum only if they are constant or
// unread in all of its terms. Groups of a convolution go as wholes. A number other than 0 goes into the biases of those
// that read it, where every output element sees as much of it: into convolutions without padding and matrix products.
// Anything else keeps its channels, as do graph inputs and outputs; every value keeps one at least.
//
// With graph.pruning.threshold X > 0, channels whose largest |weight| is at most X times their layer's count as zero
// too, and a convolution with padding takes a number other than 0 into its bias as if the borders saw all of it.
//
// What went is written to graph.pruning. Returns how many channels did.
Result<int> prune_channels(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
