#include <algorithm>

#include "ops/activation.h"
#include "ops/conv/define_window.h"
#include "ops/conv_transpose/phases.h"
#include "ops/definition.h"

namespace kiln::ops::conv_transpose {

void conv_transpose_reference(const KernelArgs& args);

namespace {

using conv::Window;

int64_t channels_of(const NodeView& node) {
  const Shape& x = node.input_shape(0);
  return node.is_nhwc() ? x[x.rank - 1] : x[1];
}

// Fills in the pads that auto_pad or output_shape ask for, and the output's size.
// ONNX, ConvTranspose: total_padding = stride * (in - 1) + output_padding + extent - out.
void resolve_pads(const NodeView& node, const int64_t in_size[3], Window* window, int64_t out_size[3]) {
  const std::vector<int64_t> padding = node.attr_ints("output_padding");
  const std::vector<int64_t> shape = node.attr_ints("output_shape");
  const int first = 3 - window->spatial;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - first;
    const int64_t extra = axis >= 0 && axis < int(padding.size()) ? padding[size_t(axis)] : 0;
    const int64_t extent = (window->kernel[i] - 1) * window->dilation[i] + 1;
    const int64_t full = window->stride[i] * (in_size[i] - 1) + extra + extent;
    const bool is_same = window->auto_pad == "SAME_UPPER" || window->auto_pad == "SAME_LOWER";
    const size_t skipped = shape.size() > size_t(window->spatial) ? shape.size() - size_t(window->spatial) : 0;
    if (axis >= 0 && (!shape.empty() || is_same)) {
      out_size[i] = shape.empty() ? in_size[i] * window->stride[i] : shape[skipped + size_t(axis)];
      const int64_t total = std::max<int64_t>(0, full - out_size[i]);
      const int64_t begin = window->auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window->pad_begin[i] = begin;
      window->pad_end[i] = total - begin;
    } else {
      out_size[i] = full - window->pad_begin[i] - window->pad_end[i];
    }
  }
}

bool check_lengths(const NodeView& node, int spatial, Inference& out) {
  const size_t num_padding = node.attr_ints("output_padding").size();
  const size_t num_shape = node.attr_ints("output_shape").size();
  if (num_padding != 0 && num_padding != size_t(spatial)) {
    out.invalid("output_padding", strf("%zu numbers", num_padding), strf("%d, one a spatial axis", spatial));
    return false;
  }
  if (num_shape != 0 && num_shape != size_t(spatial) && num_shape != size_t(spatial) + 2) {
    out.invalid("output_shape", strf("%zu numbers", num_shape), strf("%d, one a spatial axis", spatial));
    return false;
  }
  return true;
}

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 3)) return;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!out.check_dtype(i, {DType::kF32})) return;
  }
  const Shape& x = node.input_shape(0);
  const Shape& w = node.input_shape(1);
  if (x.rank < 3 || w.rank != x.rank) {
    out.invalid("ranks of X, W", strf("%d, %d", x.rank, w.rank), "3, 4 or 5, the same for both");
    return;
  }
  if (x.rank > 5) {
    out.unsupported("rank of X", std::to_string(x.rank), "3, 4 or 5");
    return;
  }
  Window window;
  if (!conv::read_window(node, w, out, &window) || !check_lengths(node, window.spatial, out)) return;
  const int64_t channels = channels_of(node);
  const int64_t group = node.attr_int("group", 1);
  if (group < 1 || channels % group != 0) {
    out.invalid("group", std::to_string(group), strf("a divisor of channels=%lld", static_cast<long long>(channels)));
    return;
  }
  if (w[0] != channels) {
    out.invalid("channels of W", std::to_string(w[0]), strf("X's, %lld", static_cast<long long>(channels)));
    return;
  }
  int64_t in_size[3];
  int64_t out_size[3];
  conv::spatial_sizes(x, node.is_nhwc(), in_size);
  resolve_pads(node, in_size, &window, out_size);
  const Shape y = conv::image_shape(x[0], w[1] * group, out_size, window.spatial, node.is_nhwc());
  if (*std::min_element(out_size, out_size + 3) < 1 || x.num_elements() <= 0 || w.num_elements() <= 0) {
    out.invalid("output shape", print_shape(y), "at least one element");
    return;
  }
  if (y.num_elements() < 0 || y.num_elements() > INT32_MAX || x.num_elements() > INT32_MAX ||
      w.num_elements() > INT32_MAX) {
    out.unsupported("output shape", print_shape(y), "fewer than 2^31 elements an operand");
    return;
  }
  if (!conv::check_fused(node, w[1] * group, y, false, out)) return;
  out.set_output(0, DType::kF32, y);
}

ConvTransposeParams params_of(const NodeView& node, int64_t out_size[3]) {
  Window window = conv::window_of(node, node.input_shape(1));
  int64_t in_size[3];
  conv::spatial_sizes(node.input_shape(0), node.is_nhwc(), in_size);
  resolve_pads(node, in_size, &window, out_size);
  ConvTransposeParams params;
  for (int i = 0; i < 3; ++i) {
    params.kernel[i] = static_cast<int32_t>(window.kernel[i]);
    params.stride[i] = static_cast<int32_t>(window.stride[i]);
    params.dilation[i] = static_cast<int32_t>(window.dilation[i]);
    params.pad_begin[i] = static_cast<int32_t>(window.pad_begin[i]);
  }
  params.group = static_cast<int32_t>(node.attr_int("group", 1));
  params.is_nhwc = node.is_nhwc();
  params.activation = read_activation(node.node());
  return params;
}

ParamBytes make_params(const NodeView& node) {
  int64_t out_size[3];
  return pack_params(params_of(node, out_size));
}

// One phase of one group as B: k = (tap row, tap column, channel), n = filter.
void pack_phase(const ConvTransposeParams& p, const AxisPhase& rows, const AxisPhase& columns, const float* w,
                const float* bias, int32_t group_in, int32_t group_out, float* to) {
  const int64_t taps = int64_t{p.kernel[1]} * p.kernel[2];
  std::vector<float> dense;
  for (int32_t th = 0; th < rows.num_taps; ++th) {
    for (int32_t tw = 0; tw < columns.num_taps; ++tw) {
      const int64_t tap =
          int64_t{rows.first_tap + th * p.stride[1]} * p.kernel[2] + columns.first_tap + tw * p.stride[2];
      for (int32_t c = 0; c < group_in; ++c) {
        for (int32_t o = 0; o < group_out; ++o) dense.push_back(w[(int64_t{c} * group_out + o) * taps + tap]);
      }
    }
  }
  SourceB b;
  b.data = dense.data();
  b.n = group_out;
  b.k_inner = rows.num_taps * columns.num_taps * group_in;
  b.n_stride = 1;
  b.inner_stride = group_out;
  b.bias = bias;
  pack_b(b, &serial_parallel(), to);
}

TensorPtr pack_phases(const ConvTransposeParams& p, const Tensor& w, const Tensor* bias, const PhaseSizes& sizes,
                      const int64_t out_size[3]) {
  auto packed = std::make_shared<Tensor>(DType::kF32, Shape{sizes.packed_floats});
  if (packed->data() == nullptr) return nullptr;
  const auto group_in = static_cast<int32_t>(w.shape()[0] / p.group);
  const auto group_out = static_cast<int32_t>(w.shape()[1]);
  float* to = packed->as<float>();
  for_each_phase(p, static_cast<int32_t>(out_size[1]), static_cast<int32_t>(out_size[2]),
                 [&](const AxisPhase& rows, const AxisPhase& columns, int32_t, int32_t) {
                   const int64_t floats = phase_floats(p, rows, columns, group_in, group_out) / p.group;
                   for (int32_t g = 0; g < p.group; ++g, to += floats) {
                     const float* from = w.as<float>() + int64_t{g} * group_in * group_out * p.kernel[1] * p.kernel[2];
                     const float* group_bias = bias != nullptr ? bias->as<float>() + g * group_out : nullptr;
                     pack_phase(p, rows, columns, from, group_bias, group_in, group_out, to);
                   }
                 });
  return packed;
}

Status lower(const NodeView& node, Lowering& out) {
  int64_t out_size[3];
  const ConvTransposeParams params = params_of(node, out_size);
  const Shape& x = node.input_shape(0);
  const Shape& w = node.input_shape(1);
  const auto operand = [&](int i) {
    return Operand{node.has_input(i) ? node.node().inputs[size_t(i)] : kNoValue, nullptr};
  };
  out.params = pack_params(params);
  out.outputs = node.node().outputs;
  out.inputs = {operand(0), operand(1), operand(2)};
  out.macs = x.num_elements() / channels_of(node) * w.num_elements();
  const Tensor* weights = node.constant(1);
  const Tensor* bias = node.constant(2);
  const bool constant = weights != nullptr && (bias != nullptr || !node.has_input(2));
  const bool plain_window = params.dilation[1] == 1 && params.dilation[2] == 1 && params.stride[1] <= kMaxPhaseStride &&
                            params.stride[2] <= kMaxPhaseStride;
  out.kernel = "conv_transpose_f32_plain";
  if (params.is_nhwc == 0 || x.rank == 5 || !constant || !plain_window) return {};
  const PhaseSizes sizes = phase_sizes(params, x[0], w[0] / params.group, w[1], static_cast<int32_t>(out_size[1]),
                                       static_cast<int32_t>(out_size[2]));
  if (sizes.packed_floats > INT32_MAX) return {};
  out.kernel = "conv_transpose_f32_phases";
  out.scratch_bytes = sizes.scratch_bytes;
  out.inputs = {operand(0), {kNoValue, pack_phases(params, *weights, bias, sizes, out_size)}};
  if (out.inputs[1].packed == nullptr) return {Code::kOutOfMemory, "no memory for packed weights", node.node().name};
  return {};
}

}  // namespace

std::span<const OpDef> definitions() {
  static const OpDef kDefs[] = {
      {"ConvTranspose", "", 1,
       "the transpose of Conv: each input pixel adds its kernel to the output, + b; 1-D, 2-D and 3-D, f32; "
       "all of auto_pad, "
       "output_padding, output_shape, dilations, group, pads, strides",
       infer, make_params, conv_transpose_reference, nullptr, lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::conv_transpose
