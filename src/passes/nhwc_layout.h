// Makes spatial operators work in NHWC, the layout of their kernels.
#pragma once

#include "compile/compile.h"

namespace kiln {

// Conv (f32, 1-D and 2-D), ConvTranspose, MaxPool, AveragePool, LpPool, their global forms,
// BatchNormalization, InstanceNormalization, LRN, DepthToSpace and SpaceToDepth get the attribute layout =
// "NHWC", with Transposes before their images and behind their output. Nothing is saved yet: push_transposes
// follows.
Result<int> nhwc_layout(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
