// How the outputs of a transposed convolution of dilation 1 fall into phases that use the same taps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/gemm.h"
#include "ops/conv_transpose/conv_transpose.h"

namespace kiln::ops::conv_transpose {

constexpr int32_t kMaxPhaseStride = 16;  // larger strides have more phases than they are worth

// One axis of a phase: output = first + stride * q reads input q + offset - t with tap first_tap + stride *
// t.
struct AxisPhase {
  int32_t first_tap = 0, num_taps = 0;
  int32_t offset = 0;
  int32_t num_outputs = 0;
};

inline AxisPhase axis_phase(int32_t phase, int32_t kernel, int32_t stride, int32_t pad_begin, int32_t out_size) {
  AxisPhase axis;
  axis.first_tap = (phase + pad_begin) % stride;
  axis.num_taps = axis.first_tap < kernel ? (kernel - axis.first_tap + stride - 1) / stride : 0;
  axis.offset = (phase + pad_begin) / stride;
  axis.num_outputs = phase < out_size ? (out_size - phase + stride - 1) / stride : 0;
  return axis;
}

// Calls body(height phase, width phase, index of the height phase, of the width phase).
template <typename F>
void for_each_phase(const ConvTransposeParams& p, int32_t out_height, int32_t out_width, F&& body) {
  for (int32_t h = 0; h < p.stride[1]; ++h) {
    const AxisPhase y = axis_phase(h, p.kernel[1], p.stride[1], p.pad_begin[1], out_height);
    for (int32_t w = 0; w < p.stride[2]; ++w) {
      body(y, axis_phase(w, p.kernel[2], p.stride[2], p.pad_begin[2], out_width), h, w);
    }
  }
}

// Floats of a phase's packed weights, all groups.
inline int64_t phase_floats(const ConvTransposeParams& p, const AxisPhase& y, const AxisPhase& x, int64_t group_in,
                            int64_t group_out) {
  return packed_b_floats(group_out, int64_t{y.num_taps} * x.num_taps * group_in) * p.group;
}

struct PhaseSizes {
  int64_t packed_floats = 0;
  size_t zero_bytes = 0;  // a kernel row of zeros, at the start of the scratch
  size_t scratch_bytes = 0;
};

inline PhaseSizes phase_sizes(const ConvTransposeParams& p, int64_t batch, int64_t group_in, int64_t group_out,
                              int32_t out_height, int32_t out_width) {
  PhaseSizes sizes;
  size_t product = 0;
  for_each_phase(p, out_height, out_width, [&](const AxisPhase& y, const AxisPhase& x, int32_t, int32_t) {
    sizes.packed_floats += phase_floats(p, y, x, group_in, group_out);
    const auto m = static_cast<int32_t>(batch * y.num_outputs * x.num_outputs);
    const auto k = static_cast<int32_t>(int64_t{y.num_taps} * x.num_taps * group_in);
    const RowForm form = window_form(y.num_taps * x.num_taps, static_cast<int32_t>(group_in));
    product = std::max(product, gemm_scratch_bytes(p.group, m, static_cast<int32_t>(group_out), k, form));
  });
  sizes.zero_bytes = (static_cast<size_t>(p.kernel[2] * group_in) * sizeof(float) + 63) / 64 * 64;
  sizes.scratch_bytes = sizes.zero_bytes + product;
  return sizes;
}

}  // namespace kiln::ops::conv_transpose
