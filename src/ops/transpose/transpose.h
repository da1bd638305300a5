// Transpose: out.dims[i] = in.dims[perm[i]]; any dtype and rank; `perm` defaults to the reversed order.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace kiln::ops::transpose {

struct TransposeParams {
  int32_t perm[kMaxRank] = {};
};

}  // namespace kiln::ops::transpose
