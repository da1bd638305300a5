#include <algorithm>
#include <limits>

#include "ops/activation.h"
#include "ops/conv/define_window.h"
#include "ops/definition.h"
#include "ops/quant_conv/quant_conv.h"

namespace kiln::ops::quant_conv {

// reference.cc
void run_plain(const KernelArgs& args);

namespace {

enum Input { kX, kWeights, kBias, kResidual, kWeightScale, kGain };

struct ByteRange {
  int32_t low, high;
};
ByteRange range_of(DType dtype) {
  if (dtype == DType::kI8) return {-128, 127};
  return {0, 255};
}

DType output_dtype(const NodeView& node) { return parse_dtype(node.attr_string("y_dtype", "u8").c_str()); }

bool check_scale(const NodeView& node, const char* name, Inference& out) {
  const float scale = node.attr_float(name, 0);
  if (scale > 0 && std::isfinite(scale)) return true;
  out.invalid(name, std::to_string(scale), "a finite number above 0");
  return false;
}

bool check_zero(const NodeView& node, const char* name, DType dtype, Inference& out) {
  const int64_t zero = node.attr_int(name, 0);
  const ByteRange range = range_of(dtype);
  if (zero >= range.low && zero <= range.high) return true;
  out.invalid(name, std::to_string(zero), strf("%d to %d", range.low, range.high));
  return false;
}

bool check_quantisation(const NodeView& node, Inference& out) {
  if (!check_scale(node, "x_scale", out) || !check_zero(node, "x_zero", node.input_dtype(kX), out)) return false;
  const DType y = output_dtype(node);
  if (y != DType::kU8 && y != DType::kI8 && y != DType::kF32) {
    out.invalid("y_dtype", node.attr_string("y_dtype", ""), "u8, i8 or f32");
    return false;
  }
  if (y != DType::kF32 && (!check_scale(node, "y_scale", out) || !check_zero(node, "y_zero", y, out))) return false;
  if (node.has_input(kResidual)) {
    if (!check_scale(node, "r_scale", out)) return false;
    if (!check_zero(node, "r_zero", node.input_dtype(kResidual), out)) return false;
  }
  return true;
}

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 6)) return;
  if (!out.check_dtype(kX, {DType::kU8, DType::kI8}) || !out.check_dtype(kWeights, {DType::kI8}) ||
      !out.check_dtype(kBias, {DType::kF32}) || !out.check_dtype(kResidual, {DType::kU8, DType::kI8}) ||
      !out.check_dtype(kWeightScale, {DType::kF32}) || !out.check_dtype(kGain, {DType::kF32})) {
    return;
  }
  const Shape& x = node.input_shape(kX);
  const Shape& w = node.input_shape(kWeights);
  if (x.rank < 2 || x.rank > 4 || w.rank != x.rank) {
    out.invalid("rank of X", std::to_string(x.rank), "2, 3 or 4, and W's");
    return;
  }
  conv::Window window;
  if (!conv::read_window(node, w, out, &window)) return;
  const int64_t channels = x[x.rank - 1];
  const int64_t group = node.attr_int("group", 1);
  if (group < 1 || channels % group != 0 || w[0] % group != 0 || w[1] * group != channels) {
    out.invalid("group", std::to_string(group), "a divisor of channels and filters that fits W");
    return;
  }
  int64_t in_size[3];
  int64_t out_size[3];
  conv::spatial_sizes(x, true, in_size);
  conv::resolve_pads(in_size, &window, out_size);
  const Shape y = conv::image_shape(x[0], w[0], out_size, window.spatial, true);
  if (y.num_elements() <= 0 || x.num_elements() <= 0 || w.num_elements() <= 0 || y.num_elements() > INT32_MAX) {
    out.invalid("output shape", print_shape(y), "a kernel that fits the padded input " + print_shape(x));
    return;
  }
  if (!conv::check_fused(node, w[0], y, true, out)) return;
  if (!node.has_input(kWeightScale) || node.input_shape(kWeightScale).num_elements() != w[0]) {
    out.invalid("w_scale", node.has_input(kWeightScale) ? print_shape(node.input_shape(kWeightScale)) : "absent",
                "one a filter");
    return;
  }
  const Tensor* scales = out.need_constant(kWeightScale, "w_scale");
  if (scales == nullptr || out.need_constant(kWeights, "W") == nullptr) return;
  if (node.has_input(kBias) && out.need_constant(kBias, "B") == nullptr) return;
  for (int64_t o = 0; o < w[0]; ++o) {
    const float scale = scales->as<float>()[o];
    if (scale > 0 && std::isfinite(scale)) continue;
    out.invalid("w_scale", std::to_string(scale), "finite numbers above 0");
    return;
  }
  if (node.has_input(kGain)) {
    if (node.input_shape(kGain).num_elements() != w[0] || node.has_input(kResidual) ||
        output_dtype(node) == DType::kF32) {
      out.invalid("y_gain", print_shape(node.input_shape(kGain)),
                  "one a filter, without a residual, for an 8-bit output");
      return;
    }
    if (out.need_constant(kGain, "y_gain") == nullptr) return;
  }
  if (!check_quantisation(node, out)) return;
  out.set_output(0, output_dtype(node), y);
}

conv::ConvParams conv_params(const NodeView& node, int64_t out_size[3]) {
  conv::Window window = conv::window_of(node, node.input_shape(kWeights));
  int64_t in_size[3];
  conv::spatial_sizes(node.input_shape(kX), true, in_size);
  conv::resolve_pads(in_size, &window, out_size);
  conv::ConvParams params;
  for (int i = 0; i < 3; ++i) {
    params.kernel[i] = static_cast<int32_t>(window.kernel[i]);
    params.stride[i] = static_cast<int32_t>(window.stride[i]);
    params.dilation[i] = static_cast<int32_t>(window.dilation[i]);
    params.pad_begin[i] = static_cast<int32_t>(window.pad_begin[i]);
    params.pad_end[i] = static_cast<int32_t>(window.pad_end[i]);
  }
  params.group = static_cast<int32_t>(node.attr_int("group", 1));
  params.input_is_nhwc = 1;
  params.output_is_nhwc = 1;
  params.residual = conv::read_residual(node, kResidual);
  params.activation = read_activation(node.node());
  return params;
}

QuantConvParams params_of(const NodeView& node, int64_t out_size[3]) {
  QuantConvParams p;
  p.conv = conv_params(node, out_size);
  const DType y = output_dtype(node);
  p.x_scale = node.attr_float("x_scale", 1);
  p.x_zero = static_cast<int32_t>(node.attr_int("x_zero", 0));
  p.y_unit = y == DType::kF32 ? 1 : node.attr_float("y_scale", 1);
  p.y_zero = y == DType::kF32 ? 0 : static_cast<int32_t>(node.attr_int("y_zero", 0));
  p.r_scale = node.attr_float("r_scale", 1);
  p.r_zero = static_cast<int32_t>(node.attr_int("r_zero", 0));
  const Activation& act = p.conv.activation;
  p.computes = is_computed(act, node.has_input(kGain));
  p.has_gains = p.computes != 0 && node.has_input(kGain);
  p.sum_unit = p.computes != 0 ? 1 : p.y_unit;
  const bool is_clip = act.kind == static_cast<int32_t>(ActivationKind::kClip) && p.computes == 0;
  if (y == DType::kF32) {
    p.low = is_clip ? act.a : -std::numeric_limits<float>::infinity();
    p.high = is_clip ? act.b : std::numeric_limits<float>::infinity();
    return p;
  }
  const ByteRange range = range_of(y);
  p.low = static_cast<float>(range.low - p.y_zero);
  p.high = static_cast<float>(range.high - p.y_zero);
  if (is_clip) {
    const float low = p.low;
    const float high = p.high;
    p.low = std::clamp(std::nearbyintf(act.a / p.y_unit), low, high);
    p.high = std::clamp(std::nearbyintf(act.b / p.y_unit), p.low, high);
  }
  return p;
}

ParamBytes make_params(const NodeView& node) {
  int64_t out_size[3];
  return pack_params(params_of(node, out_size));
}

// W as (o, tap, c), the order in which windows are read.
struct FilterView {
  explicit FilterView(const Tensor& w)
      : data(w.as<int8_t>()), channels(w.shape()[1]), taps(w.num_elements() / (w.shape()[0] * w.shape()[1])) {}
  int8_t at(int64_t o, int64_t k) const { return data[(o * channels + k % channels) * taps + k / channels]; }
  const int8_t* data;
  int64_t channels, taps;
};

void pack_gemm(const QuantConvParams& p, const Tensor& w, Tensor* packed) {
  const FilterView filters(w);
  const int64_t group_out = w.shape()[0] / p.conv.group;
  const int64_t k = filters.channels * filters.taps;
  const int64_t depth = quant_depth(k);
  const int64_t columns = int64_t{quant_panels(group_out)} * kQuantColumns;
  for (int64_t g = 0; g < p.conv.group; ++g) {
    for (int64_t o = 0; o < group_out; ++o) {
      const int64_t column = g * columns + o;
      int8_t* panel = packed->as<int8_t>() + column / kQuantColumns * kQuantColumns * depth;
      for (int64_t i = 0; i < k; ++i) {
        panel[(i / 2 * kQuantColumns + column % kQuantColumns) * 2 + i % 2] = filters.at(g * group_out + o, i);
      }
    }
  }
}

void pack_depthwise(const Tensor& w, Tensor* packed) {
  const FilterView filters(w);
  const int64_t channels = w.shape()[0];
  for (int64_t t = 0; t < filters.taps; ++t) {
    for (int64_t c = 0; c < channels; ++c) {
      packed->as<int8_t>()[(t / 2 * channels + c) * 2 + t % 2] = filters.at(c, t);
    }
  }
}

Status lower(const NodeView& node, Lowering& out) {
  int64_t out_size[3];
  const QuantConvParams p = params_of(node, out_size);
  const Shape& x = node.input_shape(kX);
  const Tensor& w = *node.constant(kWeights);
  const int64_t filters = w.shape()[0];
  const int64_t group_out = filters / p.conv.group;
  const int64_t taps = w.num_elements() / (filters * w.shape()[1]);
  const int64_t k = taps * w.shape()[1];
  const bool is_depthwise =
      w.shape()[1] == 1 && group_out == 1 && filters >= kQuantColumns && taps <= kMaxDepthwiseTaps;
  const int64_t columns = is_depthwise ? filters : int64_t{quant_panels(group_out)} * kQuantColumns * p.conv.group;

  auto packed = std::make_shared<Tensor>(DType::kI8, Shape{columns * quant_depth(k)});
  auto all_columns = std::make_shared<Tensor>(DType::kI32, Shape{columns * (p.has_gains != 0 ? 3 : 2)});
  if (packed->data() == nullptr || all_columns->data() == nullptr) {
    return {Code::kOutOfMemory, "no memory for packed weights", node.node().name};
  }
  auto* biases = all_columns->as<int32_t>();
  auto* multipliers = all_columns->as<float>() + columns;
  if (is_depthwise)
    pack_depthwise(w, packed.get());
  else
    pack_gemm(p, w, packed.get());
  const Tensor* bias = node.constant(kBias);
  const float* scales = node.constant(kWeightScale)->as<float>();
  for (int64_t o = 0; o < filters; ++o) {
    int64_t sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += w.as<int8_t>()[o * k + i];
    const int64_t column = is_depthwise ? o : o / group_out * (columns / p.conv.group) + o % group_out;
    biases[column] = column_bias(p, bias != nullptr ? bias->as<float>()[o] : 0, scales[o], sum);
    const float gain = node.constant(kGain) != nullptr ? node.constant(kGain)->as<float>()[o] : 1;
    multipliers[column] = column_multiplier(p, scales[o]) * (p.computes != 0 ? 1 : gain);
    if (p.has_gains != 0) multipliers[columns + column] = column_gain(p, gain);
  }
  const ValueId residual = node.has_input(kResidual) ? node.node().inputs[kResidual] : kNoValue;
  out.kernel = is_depthwise ? "quant_conv_depthwise" : "quant_conv_gemm";
  out.params = pack_params(p);
  out.inputs = {{node.node().inputs[kX], nullptr},
                {kNoValue, std::move(packed)},
                {kNoValue, std::move(all_columns)},
                {residual, nullptr}};
  out.outputs = node.node().outputs;
  out.macs = x[0] * out_size[0] * out_size[1] * out_size[2] * w.num_elements();
  const auto m = static_cast<int32_t>(x[0] * out_size[1] * out_size[2]);
  out.scratch_bytes = is_depthwise ? static_cast<size_t>(filters)
                                   : static_cast<size_t>(quant_gemm_scratch_bytes(m, static_cast<int32_t>(k)));
  return {};
}

}  // namespace

std::span<const OpDef> definitions() {
  static const OpDef kDefs[] = {
      {"QuantConv", "kiln", 1, "a convolution or product on 8-bit numbers with its rescaling; made by passes", infer,
       make_params, run_plain, nullptr, lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::quant_conv
