// ConvTranspose: y[n,o,p,q] = act(b[o] + sum over c, i, j with p = h*sh + i*dh - pt and q = v*sw + j*dw - pl
// of x[n,c,h,v] * w[c,o,i,j]), c and o within a group. ONNX opsets 1 to 23, f32; 1-D, 2-D and (plain loops
// only) 3-D.
//
// Inputs: x, w (C, O/G, KH, KW: always ONNX order), optional bias (O). `activation*` (ops/activation.h)
// belong to the fused form. With `layout` = "NHWC" x and y are (N, H, W, C) or (N, W, C).
//
// Kernels:
//   conv_transpose_f32_phases  NHWC, dilation 1, constant weights. Outputs whose (p mod sh, q mod sw) agree
//   use the same
//                              taps: each such phase is a convolution of stride 1 whose rows go through
//                              cpu/gemm.h, with weights packed phase by phase. Inputs: x, packed.
//   conv_transpose_f32_plain   any layout, rank and form; plain loops in double, which are also the
//   reference.
#pragma once

#include <cstdint>

#include "cpu/activation_kind.h"

namespace kiln::ops::conv_transpose {

// Arrays are (depth, height, width); axes that the operands do not have are 1 wide.
struct ConvTransposeParams {
  int32_t kernel[3] = {1, 1, 1};
  int32_t stride[3] = {1, 1, 1};
  int32_t dilation[3] = {1, 1, 1};
  int32_t pad_begin[3] = {};
  int32_t group = 1;
  int32_t is_nhwc = 0;
  Activation activation;
};

}  // namespace kiln::ops::conv_transpose
