// Lets a convolution read the image directly where the model first moves blocks of pixels into channels
// (YOLOX's Focus).
#pragma once

#include "compile/compile.h"

namespace kiln {

// Channels that are every b-th pixel of an image, one group of channels for each of the b x b places (Slices
// with step b and a Concat of them in any order, or SpaceToDepth), read by Convs only, with one group, no
// dilation and constant weights: each becomes a Conv of the image with kernel, strides and pads b times as
// large and the weights in their new places. It adds the same products.
//   w'[o, c, i*b + dy, j*b + dx] = w[o, place(dy, dx)*C + c, i, j]
Result<int> fold_space_to_depth(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
