// Compile side: the window attributes that Conv and ConvTranspose share (kernel_shape, strides, dilations,
// pads, auto_pad).
#pragma once

#include "ops/definition.h"

namespace kiln::ops::conv {

constexpr int64_t kMaxWindow = 1 << 24;  // of a kernel size, stride, dilation or pad

// As (depth, height, width), 1 (pads: 0) for axes that the operands do not have.
struct Window {
  int spatial = 0;  // axes that there are
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t pad_begin[3] = {};
  int64_t pad_end[3] = {};
  std::string auto_pad;  // NOTSET, VALID, SAME_UPPER, SAME_LOWER; pads are not filled in for the last two
};

// Spatial sizes of an operand as (depth, height, width).
void spatial_sizes(const Shape& shape, bool is_nhwc, int64_t size[3]);
Shape image_shape(int64_t n, int64_t c, const int64_t size[3], int spatial, bool is_nhwc);

// Reads and checks the attributes against weights (.., .., spatial…); reports and returns false if they are
// wrong.
bool read_window(const NodeView& node, const Shape& weights, Inference& out, Window* window);

// The same for a node that has passed inference.
Window window_of(const NodeView& node, const Shape& weights);

// Resolves auto_pad and computes the output size of each axis; 0 or less if the kernel does not fit.
void resolve_pads(const int64_t in_size[3], Window* window, int64_t out_size[3]);

// Bias (input 2, `channels` elements) and activation; the residual (input 3) of the fused form.
bool check_fused(const NodeView& node, int64_t channels, const Shape& output, bool takes_residual, Inference& out);

// Residual, as ConvParams and MatmulParams store it.
int32_t read_residual(const NodeView& node, int residual_input);

}  // namespace kiln::ops::conv
