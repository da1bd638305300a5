// Lets a convolution or average pool do the padding of the Pad before it.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Pad with zeros around the spatial axes only, all of whose readers are Conv (explicit pads), or AveragePool
// that counts padding and has ceil_mode = 0: its amounts go into the readers' pads. MaxPool pads with minus
// infinity: never.
Result<int> fold_pad(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
