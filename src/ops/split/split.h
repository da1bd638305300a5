// Split: pieces of the input along `axis`, of the lengths `split` (attribute or input), or of equal length; with
// `num_outputs` (opset 18) the last piece may be shorter. Any dtype.
#pragma once

#include <cstdint>

namespace kiln::ops::split {

// Behind this header stand `count` int32: where each output begins on the axis. Absent outputs are allowed.
struct SplitParams {
  int32_t axis = 0;
  int32_t count = 0;
};

inline const int32_t* split_begins(const void* params) {
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(params) + sizeof(SplitParams));
}

}  // namespace kiln::ops::split
