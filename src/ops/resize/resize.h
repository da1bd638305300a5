// Resize and Upsample: out[j] = sum over taps of weight * in[index], a product over the axes; nearest, linear and
// cubic.
//
// Where output position j of an axis lies on the input is ONNX's coordinate_transformation_mode; how far the taps reach
// its mode and antialias. It is an operator on any axes: for NHWC its per-axis data (scales, sizes, roi) are permuted.
#pragma once

#include <cstdint>
#include <vector>

#include "base/shape.h"

namespace kiln::ops::resize {

enum class Mode : int32_t { kNearest = 0, kLinear = 1, kCubic = 2 };
enum class Coordinates : int32_t {
  kHalfPixel = 0,
  kHalfPixelSymmetric = 1,
  kPytorchHalfPixel = 2,
  kAlignCorners = 3,
  kAsymmetric = 4,
  kTfCropAndResize = 5,
  kTfHalfPixelForNn = 6,
};
// kSimple is what operators before opset 11 do: floor when enlarging, ceil when reducing.
enum class Rounding : int32_t { kPreferFloor = 0, kPreferCeil = 1, kFloor = 2, kCeil = 3, kSimple = 4 };

// Of the reference kernel; per-axis data for every axis of the input.
struct ResizeParams {
  int32_t mode = 0;
  int32_t coordinates = 0;
  int32_t rounding = 0;
  int32_t antialias = 0;
  int32_t exclude_outside = 0;
  float cubic_a = -0.75f;
  float extrapolation = 0;
  float scale[kMaxRank] = {};
  float length[kMaxRank] = {};  // of the output before it is made whole: dim * scale
  float roi_start[kMaxRank] = {};
  float roi_end[kMaxRank] = {};
};

// What one axis does: output position j is the sum over t of weight[j * num_taps + t] * in[index[j * num_taps + t]].
// index = -1 (then for all taps of j) means the extrapolation value.
struct AxisTaps {
  int num_taps = 1;
  std::vector<int32_t> index;
  std::vector<float> weight;

  // Every output position is the input position of the same number.
  bool is_identity(int64_t in_dim) const;
};
AxisTaps make_axis_taps(const ResizeParams& params, int axis, int64_t in_dim, int64_t out_dim);

// Kernel "resize_nearest": operands x, indices (i32, all axes one behind the other).
struct NearestParams {
  uint8_t value[8] = {};  // the extrapolation value in the tensor's dtype
};

// Kernel "resize_separable": operands x, indices, weights (pass after pass, out_dim * taps entries each). Passes go
// through f32 buffers in scratch; other dtypes are converted before the first and after the last pass.
struct SeparableParams {
  int32_t num_passes = 0;
  float extrapolation = 0;
  int32_t axis[kMaxRank] = {};
  int32_t taps[kMaxRank] = {};
};

// Kernel "resize_f32_linear_nhwc": operands x, indices, weights ((rows + columns) * 2 entries).

}  // namespace kiln::ops::resize
