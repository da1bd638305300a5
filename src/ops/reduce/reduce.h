// Reductions over axes (ReduceSum, ReduceMean, …), ArgMax and ArgMin.
#pragma once

#include <cstdint>

namespace kiln::ops::reduce {

// Stored in bundles: append only. Over no elements: kSum 0, kProd 1, kMax the lowest value, kMin the highest.
enum class ReduceOp : int32_t {
  kSum = 0,
  kMean = 1,
  kMax = 2,  // NaN if there is one
  kMin = 3,
  kProd = 4,
  kL1 = 5,         // sum |x|
  kL2 = 6,         // sqrt(sum x^2)
  kSumSquare = 7,  // sum x^2
  kLogSum = 8,     // log(sum x)
  kLogSumExp = 9,  // log(sum e^x)
};
constexpr int32_t kNumReduceOps = 10;

// reduce_any: any axes of any dtype. Bit i of axes_mask: axis i is reduced.
struct ReduceParams {
  int32_t op = 0;
  int32_t axes_mask = 0;
};

// reduce_f32: the tensor seen as (outer, axis, inner) with the middle reduced; all but kLogSumExp.
struct ReduceSplitParams {
  int32_t op = 0;
  int32_t outer = 0;
  int32_t axis = 0;
  int32_t inner = 0;
};

// arg_reduce_any: int64 positions of the largest (smallest) along the middle axis; ties by the first or the
// last.
struct ArgReduceParams {
  int32_t outer = 0;
  int32_t axis = 0;
  int32_t inner = 0;
  int32_t is_min = 0;
  int32_t select_last = 0;
};

}  // namespace kiln::ops::reduce
