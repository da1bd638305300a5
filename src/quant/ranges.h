// Which range of an activation 8 bits are spent on.
#pragma once

#include "quant/quant_job.h"

namespace kiln {

// Both ends of a range that holds 0.
struct Range {
  double low = 0, high = 0;
};

// From a histogram:
//   minmax      all that was seen
//   percentile  all but a share of 1e-5 at the ends
//   mse         the part of the range with the least squared error of rounding and clipping
//   entropy     the part whose distribution after rounding is nearest to the one before (S. Migacz, "8-bit Inference
//               with TensorRT", GTC 2017)
//   search      all but 1e-6 at the ends, then times 0.7 to 1.3 in steps of 0.01 the least squared error, as the
//               input feature map reconstruction of Ascend's AMCT documentation does
Range choose_range(const ValueStats& stats, RangeMethod method);

// Share of the values outside.
double clipped_share(const ValueStats& stats, const Range& range);

// 8 bits, unsigned: real = (value - zero) * scale.
struct ByteScale {
  float scale = 1;
  int32_t zero = 0;
};
ByteScale scale_of_range(const Range& range);

}  // namespace kiln
