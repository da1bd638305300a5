// Elements picked or placed by indices: Gather, GatherElements, GatherND, ScatterElements, ScatterND, OneHot, TopK,
// Trilu, CumSum, NonZero.
//
// Indices are data at run time. Negative ones count from the end; what is still outside is clamped to the nearest
// element when gathering, dropped when scattering and nowhere hot in OneHot, so that no index reaches outside a tensor.
// TopK orders ties by the lower index, NaN behind everything.
#pragma once

#include <cstdint>

namespace kiln::ops::gather {

enum class Reduction : int32_t { kNone = 0, kAdd = 1, kMul = 2, kMax = 3, kMin = 4 };

// Gather, GatherElements, ScatterElements, OneHot.
struct AxisParams {
  int32_t axis = 0;
  int32_t reduction = 0;
};

// GatherND and ScatterND.
struct NdParams {
  int32_t batch_dims = 0;
  int32_t reduction = 0;
};

struct TopKParams {
  int32_t axis = 0;
  int32_t smallest = 0;
};

// Keeps the elements with column - row >= k (upper) or <= k (lower), zeroes the rest.
struct TriluParams {
  int64_t k = 0;
  int32_t upper = 1;
  int32_t unused = 0;
};

struct CumSumParams {
  int32_t axis = 0;
  int32_t exclusive = 0;
  int32_t reverse = 0;
};

}  // namespace kiln::ops::gather
