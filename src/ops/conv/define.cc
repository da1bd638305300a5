#include <algorithm>

#include "cpu/gemm.h"
#include "ops/activation.h"
#include "ops/conv/conv.h"
#include "ops/conv/define_window.h"
#include "ops/conv/geometry.h"
#include "ops/conv/winograd.h"
#include "ops/definition.h"

namespace kiln::ops::conv {

namespace {

bool input_is_nhwc(const NodeView& node) {
  return node.is_nhwc() && node.attr_string("input_layout", "NHWC") != "NCHW";
}

int64_t channels_of(const Shape& shape, bool is_nhwc) { return is_nhwc ? shape[shape.rank - 1] : shape[1]; }

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 4)) return;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!out.check_dtype(i, {DType::kF32})) return;
  }
  const Shape& x = node.input_shape(0);
  const Shape& w = node.input_shape(1);
  if (x.rank < 3) {
    out.invalid("rank of X", std::to_string(x.rank), "3, 4 or 5");
    return;
  }
  if (x.rank > 5) {
    out.unsupported("rank of X", std::to_string(x.rank), "3, 4 or 5");
    return;
  }
  if (w.rank != x.rank) {
    out.invalid("rank of W", std::to_string(w.rank), strf("that of X, %d", x.rank));
    return;
  }
  Window window;
  if (!read_window(node, w, out, &window)) return;
  const int64_t channels = channels_of(x, input_is_nhwc(node));
  const int64_t group = node.attr_int("group", 1);
  if (group < 1 || channels % group != 0 || w[0] % group != 0) {
    out.invalid("group", std::to_string(group),
                strf("a divisor of channels=%lld and of filters=%lld", static_cast<long long>(channels),
                     static_cast<long long>(w[0])));
    return;
  }
  if (w[1] * group != channels) {
    out.invalid("channels", std::to_string(channels),
                strf("group=%lld times W's %lld", static_cast<long long>(group), static_cast<long long>(w[1])));
    return;
  }
  int64_t in_size[3];
  int64_t out_size[3];
  spatial_sizes(x, input_is_nhwc(node), in_size);
  resolve_pads(in_size, &window, out_size);
  const Shape y = image_shape(x[0], w[0], out_size, window.spatial, node.is_nhwc());
  if (y.num_elements() <= 0 || x.num_elements() <= 0 || w.num_elements() <= 0) {
    out.invalid("output shape", print_shape(y), "a kernel that fits the padded input " + print_shape(x));
    return;
  }
  if (y.num_elements() > INT32_MAX || x.num_elements() > INT32_MAX || w.num_elements() > INT32_MAX) {
    out.unsupported("output shape", print_shape(y), "fewer than 2^31 elements an operand");
    return;
  }
  if (!check_fused(node, w[0], y, true, out)) return;
  out.set_output(0, DType::kF32, y);
}

ConvParams params_of(const NodeView& node, int64_t out_size[3]) {
  Window window = window_of(node, node.input_shape(1));
  int64_t in_size[3];
  spatial_sizes(node.input_shape(0), input_is_nhwc(node), in_size);
  resolve_pads(in_size, &window, out_size);
  ConvParams params;
  for (int i = 0; i < 3; ++i) {
    params.kernel[i] = static_cast<int32_t>(window.kernel[i]);
    params.stride[i] = static_cast<int32_t>(window.stride[i]);
    params.dilation[i] = static_cast<int32_t>(window.dilation[i]);
    params.pad_begin[i] = static_cast<int32_t>(window.pad_begin[i]);
    params.pad_end[i] = static_cast<int32_t>(window.pad_end[i]);
  }
  params.group = static_cast<int32_t>(node.attr_int("group", 1));
  params.input_is_nhwc = input_is_nhwc(node);
  params.output_is_nhwc = node.is_nhwc();
  params.residual = read_residual(node, 3);
  params.activation = read_activation(node.node());
  return params;
}

ParamBytes make_params(const NodeView& node) {
  int64_t out_size[3];
  return pack_params(params_of(node, out_size));
}

TensorPtr pack_panels(const ConvParams& p, const Tensor& w, const Tensor* bias) {
  const auto group_out = static_cast<int32_t>(w.shape()[0] / p.group);
  const auto group_in = static_cast<int32_t>(w.shape()[1]);
  const int32_t taps = p.kernel[1] * p.kernel[2];
  const int64_t floats = packed_b_floats(group_out, int64_t{taps} * group_in);
  if (floats > INT32_MAX / p.group) return nullptr;
  auto packed = std::make_shared<Tensor>(DType::kF32, Shape{floats * p.group});
  if (packed->data() == nullptr) return nullptr;
  for (int32_t g = 0; g < p.group; ++g) {
    SourceB b;
    b.data = w.as<float>() + int64_t{g} * group_out * group_in * taps;
    b.n = group_out;
    b.k_outer = taps;
    b.k_inner = group_in;
    b.n_stride = int64_t{group_in} * taps;
    b.outer_stride = 1;
    b.inner_stride = taps;
    b.bias = bias != nullptr ? bias->as<float>() + g * group_out : nullptr;
    pack_b(b, &serial_parallel(), packed->as<float>() + g * floats);
  }
  return packed;
}

TensorPtr pack_depthwise(const ConvParams& p, const Tensor& w, const Tensor* bias) {
  const int64_t channels = w.shape()[0];
  const int64_t taps = int64_t{p.kernel[1]} * p.kernel[2];
  auto packed = std::make_shared<Tensor>(DType::kF32, Shape{(taps + 1) * channels});
  if (packed->data() == nullptr) return nullptr;
  float* to = packed->as<float>();
  for (int64_t c = 0; c < channels; ++c) {
    to[c] = bias != nullptr ? bias->as<float>()[c] : 0.0f;
    for (int64_t t = 0; t < taps; ++t) to[(t + 1) * channels + c] = w.as<float>()[c * taps + t];
  }
  return packed;
}

Status lower(const NodeView& node, Lowering& out) {
  int64_t out_size[3];
  const ConvParams params = params_of(node, out_size);
  const Shape& x = node.input_shape(0);
  const Shape& w = node.input_shape(1);
  const int64_t channels = channels_of(x, params.input_is_nhwc != 0);
  const auto operand = [&](int i) {
    return Operand{node.has_input(i) ? node.node().inputs[size_t(i)] : kNoValue, nullptr};
  };
  const Tensor* weights = node.constant(1);
  const Tensor* bias = node.constant(2);
  const bool bias_at_run_time = node.has_input(2) && bias == nullptr;

  out.params = pack_params(params);
  out.outputs = node.node().outputs;
  out.inputs = {operand(0), operand(1), operand(2), operand(3)};
  out.macs = x[0] * out_size[0] * out_size[1] * out_size[2] * w.num_elements();
  if (params.output_is_nhwc == 0 || x.rank == 5) {
    out.kernel = "conv_f32_plain";
    return {};
  }
  if (weights == nullptr) {
    out.kernel = "conv_f32_gemm8_dynamic";
    out.scratch_bytes = gemm8_scratch_bytes(params, x[0], channels, w[0], out_size, true);
    return {};
  }
  const bool is_depthwise = params.group == channels && channels == w[0] && channels >= 4 && params.input_is_nhwc != 0;
  if (is_depthwise && !bias_at_run_time) {
    out.kernel = "conv_f32_depthwise";
    out.inputs[1] = {kNoValue, pack_depthwise(params, *weights, bias)};
    out.scratch_bytes = static_cast<size_t>(channels) * sizeof(float);
  } else {
    out.kernel = params.input_is_nhwc != 0 ? "conv_f32_gemm8" : "conv_f32_gemm8_planar";
    out.inputs[1] = {kNoValue, pack_panels(params, *weights, bias)};
    out.scratch_bytes = gemm8_scratch_bytes(params, x[0], channels, w[0], out_size, false);
    const bool wants_winograd = node.attr_string("algorithm", "") == "winograd4" && x.rank == 4 && !bias_at_run_time;
    if (wants_winograd && can_use_winograd(params, channels, w[0])) {
      out.kernel = "conv_f32_winograd4";
      out.scratch_bytes = winograd_scratch_bytes(winograd_tiles(x[0], out_size[1], out_size[2]), channels, w[0]);
    }
  }
  if (!bias_at_run_time) out.inputs[2] = {};
  if (out.inputs[1].packed == nullptr) return {Code::kOutOfMemory, "no memory for packed weights", node.node().name};
  return {};
}

}  // namespace

std::span<const OpDef> definitions() {
  static const OpDef kDefs[] = {
      {"Conv", "", 1,
       "y = sum over the window of x * w, + b; 1-D, 2-D and 3-D, f32; all of auto_pad, dilations, group, "
       "pads, strides; "
       "weights constant or computed",
       infer, make_params, run_plain, nullptr, lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::conv
