// Pad: elements before and after each axis, or fewer of them where a pad is negative. Modes: constant, reflect (without
// the edge), edge, wrap. Any dtype.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace kiln::ops::pad {

enum class PadMode : int32_t { kConstant = 0, kReflect = 1, kEdge = 2, kWrap = 3 };

// Operand 1, if present, is the constant (one element); otherwise it is `value`, in the tensor's dtype.
struct PadParams {
  int32_t begin[kMaxRank] = {};
  int32_t mode = 0;
  int32_t unused = 0;
  uint8_t value[8] = {};
};

// Where output position i of an axis comes from; -1 is the constant. `dim` > 0 unless the mode is constant.
inline int64_t pad_source(PadMode mode, int64_t i, int64_t begin, int64_t dim) {
  int64_t at = i - begin;
  if (at >= 0 && at < dim) return at;
  switch (mode) {
    case PadMode::kConstant:
      break;
    case PadMode::kEdge:
      return at < 0 ? 0 : dim - 1;
    case PadMode::kWrap:
      at %= dim;
      return at < 0 ? at + dim : at;
    case PadMode::kReflect: {
      if (dim == 1) return 0;
      const int64_t period = 2 * (dim - 1);
      at %= period;
      if (at < 0) at += period;
      return at < dim ? at : period - at;
    }
  }
  return -1;
}

}  // namespace kiln::ops::pad
