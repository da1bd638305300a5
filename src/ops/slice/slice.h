// Slice: out[i…] = in[start + i * step …] on each sliced axis. Starts, ends and steps beyond the dim are clamped as
// ONNX says; negative ones count from the end; negative steps walk backwards. Any dtype.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace kiln::ops::slice {

// One entry an axis of the input; axes that are not sliced have start 0 and step 1.
struct SliceParams {
  int32_t start[kMaxRank] = {};
  int32_t step[kMaxRank] = {};
};

}  // namespace kiln::ops::slice
