// Conv: y[n,o,p,q] = act(b[o] + sum_{c,i,j} x[n, g*C/G + c, p*sh + i*dh - pt, q*sw + j*dw - pl] * w[o,c,i,j]
// + r) [+ r], x being 0 outside the image and g the group of o. ONNX opsets 1 to 23, f32; 1-D, 2-D and (plain
// loops only) 3-D.
//
// Inputs: x, w (O, C/G, KH, KW: always ONNX order), optional bias (O), and, on nodes that passes have fused,
// an optional residual r of the output's shape and layout. The attributes `activation*` (ops/activation.h)
// and `residual`
// ("before_activation": r is added before the activation, the default; "after_activation") belong to the
// fused form. With `layout` = "NHWC" x, r and y are (N, H, W, C) or (N, W, C). With `input_layout` = "NCHW"
// besides, x alone is still in ONNX order: so the first convolution of a model can read the image as it
// comes.
//
// Kernels:
//   conv_f32_gemm8           NHWC. Output pixels are the rows of a product with weights packed in 8-wide
//   panels at
//                            compile time, cpu/gemm.h: (group, panel, 8 biases then (kh, kw, c, 8)).
//                            Inputs: x, packed, run-time bias or absent, residual or absent.
//   conv_f32_gemm8_planar    the same with x dense NCHW.
//   conv_f32_gemm8_dynamic   the same for weights computed at run time. Inputs: x, w, bias, residual.
//   conv_f32_winograd4       the same operands, 3 x 3 with stride 1, for nodes with `algorithm` = "winograd4": 36
//                            products for 16 outputs, ops/conv/winograd.h; weights are transformed at load.
//   conv_f32_depthwise       NHWC, one channel a group, no multiplier, at least 4 channels; weights and bias
//   packed as
//                            (bias, kh, kw) rows of C floats. Inputs: x, packed, absent, residual.
//   conv_f32_plain           any layout and rank, plain loops in double: what is left. Inputs: x, w, bias,
//   residual.
#pragma once

#include <cstdint>

#include "cpu/activation_kind.h"

namespace kiln::ops::conv {

enum class Residual : int32_t { kNone = 0, kBeforeActivation = 1, kAfterActivation = 2 };

// Arrays are (depth, height, width); axes that the operands do not have are 1 wide.
struct ConvParams {
  int32_t kernel[3] = {1, 1, 1};
  int32_t stride[3] = {1, 1, 1};
  int32_t dilation[3] = {1, 1, 1};
  int32_t pad_begin[3] = {};
  int32_t pad_end[3] = {};
  int32_t group = 1;
  int32_t input_is_nhwc = 0;
  int32_t output_is_nhwc = 0;  // of the residual too
  int32_t residual = 0;        // Residual
  Activation activation;
};

}  // namespace kiln::ops::conv
