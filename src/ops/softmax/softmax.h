// Softmax and LogSoftmax: y[i] = e^(x[i] - max) / sum_j e^(x[j] - max) along an axis (or log of it).
#pragma once

#include <cstdint>

namespace kiln::ops::softmax {

// The tensor seen as (outer, axis, inner), dense; before opset 13 the axis takes in all dims behind it (inner
// = 1).
struct SoftmaxParams {
  int32_t outer = 0;
  int32_t axis = 0;
  int32_t inner = 0;
  int32_t is_log = 0;
};

}  // namespace kiln::ops::softmax
