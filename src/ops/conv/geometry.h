// A convolution's operands as images with a stride for each axis, and what all its kernels check.
#pragma once

#include <algorithm>

#include "cpu/gemm.h"
#include "ops/conv/conv.h"
#include "ops/kernel.h"

namespace kiln::ops::conv {

// A tensor (N, C, spatial…) or (N, spatial…, C) of rank 3 to 5; size and stride are (depth, height, width).
struct Image {
  int32_t n = 0, c = 0;
  int32_t size[3] = {1, 1, 1};
  int64_t n_stride = 0, c_stride = 0;
  int64_t stride[3] = {};
};
Image make_image(const TensorRef& tensor, bool is_nhwc);

// What every kernel demands of params, x, bias, residual and y (not of the weights): ranks, dims that follow
// from each other, no empty dim, and positions within 32 bits. `strided`: x, residual and y may be channel
// views.
Status check_images(const KernelArgs& args, bool strided);
// That the output size follows from kernel, strides and pads, batch and channels fit, and positions stay within 32
// bits.
Status check_window(const ConvParams& p, const Image& in, const Image& out);
// Weights in ONNX order that fit x and y.
Status check_weights(const KernelArgs& args);

// conv_f32_plain, and the reference.
void run_plain(const KernelArgs& args);

// conv_f32_depthwise.
void run_depthwise(const KernelArgs& args);
Status check_depthwise(const KernelArgs& args);

// conv_f32_winograd4.
void run_winograd(const KernelArgs& args);
Status check_winograd(const KernelArgs& args);
size_t winograd_prepared_bytes(const KernelArgs& args);
void prepare_winograd(const KernelArgs& args);

// Floats from pixel to pixel of an NHWC operand, which may be a channel view.
int32_t pixel_stride(const TensorRef& nhwc);

inline uint64_t align64(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// How conv_f32_gemm8_planar cuts its output: `lines` of it at a time, from input lines that are gathered into NHWC
// order with the padding in place, by one thread.
struct PlanarBlocking {
  int32_t lines = 0;
  int32_t in_lines = 0, in_width = 0;  // that so many output lines read
  int32_t blocks_of_image = 0;
  int32_t num_slots = 0;  // blocks that may run at once, each with scratch of its own
  RowForm form;
  uint64_t input_bytes = 0;  // of a slot, then the product's scratch
  uint64_t slot_bytes = 0;
};

inline PlanarBlocking planar_blocking(const ConvParams& p, int64_t n, int64_t in_channels, int64_t out_height,
                                      int64_t out_width) {
  constexpr int64_t kRows = 768;  // of the product, about
  constexpr int64_t kMaxSlots = 8;
  PlanarBlocking b;
  b.lines = static_cast<int32_t>(std::clamp<int64_t>(kRows / out_width, 1, out_height));
  b.in_lines = (b.lines - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
  b.in_width = static_cast<int32_t>(out_width - 1) * p.stride[2] + (p.kernel[2] - 1) * p.dilation[2] + 1;
  b.blocks_of_image = static_cast<int32_t>((out_height + b.lines - 1) / b.lines);
  b.num_slots = static_cast<int32_t>(std::min(n * b.blocks_of_image, kMaxSlots));
  const auto group_in = static_cast<int32_t>(in_channels / p.group);
  b.form = p.group == 1 && p.dilation[2] == 1 ? inner_window_form(p.kernel[1], p.kernel[2], group_in)
                                              : window_form(p.kernel[1] * p.kernel[2], group_in);
  // A hostile bundle may pad as it likes: what cannot be counted gets more than any memory has.
  constexpr uint64_t kMostFloats = uint64_t{1} << 48;
  const uint64_t pixels = static_cast<uint64_t>(b.in_lines) * static_cast<uint64_t>(b.in_width);
  const auto channels = static_cast<uint64_t>(in_channels);
  b.input_bytes = align64((pixels > kMostFloats / channels ? kMostFloats : pixels * channels) * sizeof(float));
  const int32_t k = p.kernel[1] * p.kernel[2] * group_in;
  b.slot_bytes = b.input_bytes + gemm_slot_bytes(static_cast<int32_t>(b.lines * out_width), k, b.form);
  return b;
}

// The rest of conv_f32_gemm8_planar: `gemm` has all but rows, m and c's place.
void run_planar(const KernelArgs& args, Gemm gemm, char* scratch);

// Scratch of conv_f32_gemm8, or with `dynamic` of conv_f32_gemm8_dynamic: a kernel row of zeros, packed weights if
// dynamic, the product's own.
inline uint64_t gemm8_scratch_bytes(const ConvParams& params, int64_t n, int64_t in_channels, int64_t out_channels,
                                    const int64_t out_size[3], bool dynamic) {
  const int64_t group_in = in_channels / params.group;
  const int64_t group_out = out_channels / params.group;
  const auto k = static_cast<int32_t>(params.kernel[1] * params.kernel[2] * group_in);
  const auto m = static_cast<int32_t>(n * out_size[1] * out_size[2]);
  uint64_t bytes = align64(static_cast<uint64_t>(params.kernel[2] * group_in) * sizeof(float));
  if (dynamic) {
    bytes += align64(static_cast<uint64_t>(packed_b_floats(group_out, k)) * static_cast<uint64_t>(params.group) *
                     sizeof(float));
  }
  if (params.input_is_nhwc == 0) {
    const PlanarBlocking b = planar_blocking(params, n, in_channels, out_size[1], out_size[2]);
    return bytes + b.slot_bytes * static_cast<uint64_t>(b.num_slots);
  }
  const RowForm form = window_form(params.kernel[1] * params.kernel[2], static_cast<int32_t>(group_in));
  return bytes + gemm_scratch_bytes(params.group, m, static_cast<int32_t>(group_out), k, form);
}

}  // namespace kiln::ops::conv
