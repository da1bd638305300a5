// Lets a model's first convolution read the image in the order in which it comes.
#pragma once

#include "compile/compile.h"

namespace kiln {

// A Transpose to NHWC of an image of at most 4 channels that only Convs with constant weights read goes: they
// get the attribute input_layout = "NCHW" (ops/conv/conv.h).
Result<int> planar_input(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
