// The order of elements that TopK uses.
#pragma once

#include <cmath>

#include "base/tensor.h"

namespace kiln::ops::gather {

// Element i of `a` comes strictly before element j of `b`: larger ones first, or smaller ones; NaN behind all others.
inline bool comes_before(DType dtype, bool smallest, const void* a, int64_t i, const void* b, int64_t j) {
  if (is_float(dtype)) {
    const double x = element_as_f64(dtype, a, i);
    const double y = element_as_f64(dtype, b, j);
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return smallest ? x < y : x > y;
  }
  const int64_t x = element_as_i64(dtype, a, i);
  const int64_t y = element_as_i64(dtype, b, j);
  if (x == y) return false;
  const bool less = dtype == DType::kU64 ? uint64_t(x) < uint64_t(y) : x < y;
  return less == smallest;
}

}  // namespace kiln::ops::gather
