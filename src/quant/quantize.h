// Post-training quantisation: which operators run on 8-bit numbers, and in which scales.
#pragma once

#include "graph/graph.h"
#include "ops/definition.h"
#include "quant/quant_job.h"

namespace kiln {

// Does what Graph::quant asks; nothing if that is null.
//
// Convolutions and products with constant weights run in int8, but for those that end in a graph output through
// element-wise operators (detection heads; one alone, as of a classifier, does not count), those that the user keeps,
// and those that would lose time. What lies between them and only moves, adds or maps numbers follows. Each of their
// inputs gets QuantizeLinear -> DequantizeLinear with a scale chosen from the statistics of the calibration set;
// weights get a symmetric scale a filter, and the bias takes back the mean error of rounding them (M. Nagel et al.,
// "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2: the mean of the input
// is measured here). Channels whose ranges differ are scaled by themselves before they are rounded, and back in the
// weights that read them (cross-layer equalisation, same paper, section 4.1; any activation may stand between, since
// the scaling comes after it). fuse_quantized makes 8-bit operators of that.
Result<int> quantize(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
