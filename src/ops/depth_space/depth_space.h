// DepthToSpace: a channel group of b * b becomes a b x b block of pixels. SpaceToDepth: the inverse (of mode DCR).
//   DCR: out[n, c, h*b + i, w*b + j] = in[n, (i*b + j) * C + c, h, w]
//   CRD: out[n, c, h*b + i, w*b + j] = in[n, (c*b + i) * b + j, h, w]
// Any dtype; NCHW, or NHWC with attribute `layout`.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace kiln::ops::depth_space {

struct DepthSpaceParams {
  int32_t block = 1;
  int32_t is_crd = 0;
  int32_t to_depth = 0;
  int32_t is_nhwc = 0;
};

// Axis numbers of channels, rows, columns.
struct SpaceAxes {
  int c, h, w;
  explicit SpaceAxes(bool is_nhwc) : c(is_nhwc ? 3 : 1), h(is_nhwc ? 1 : 2), w(is_nhwc ? 2 : 3) {}
};

}  // namespace kiln::ops::depth_space
