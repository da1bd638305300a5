// Predicted times of a convolution or product, in int8 and in float: which of them to choose, and for the report.
#pragma once

#include "ops/definition.h"

namespace kiln {

struct PredictedTimes {
  double int8_us = 0, float_us = 0;  // on one core
};

// By rates measured on the wasm kernels (docs/performance.md, "Int8"), so only the ratio means something elsewhere;
// Winograd and the cost of activations are not in them.
PredictedTimes predict_times(const NodeView& product);

}  // namespace kiln
