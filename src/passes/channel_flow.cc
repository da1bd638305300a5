#include "passes/channel_flow.h"

#include <algorithm>
#include <cmath>

#include "passes/match.h"
#include "passes/merge_reshapes.h"

namespace kiln {
namespace {

constexpr int64_t kMostChannels = 1 << 16;  // of a value; one with more is left alone

bool is_onnx(const NodeView& node, const char* op) { return node.node().domain.empty() && node.node().op == op; }

bool all_zero(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
}

const Tensor* f32_constant(const NodeView& node, int i) {
  const Tensor* constant = node.constant(i);
  return constant != nullptr && constant->dtype() == DType::kF32 ? constant : nullptr;
}

// What the rules below fill in.
struct FlowBuilder {
  const NodeView& node;
  const ChannelNumbers& channels;
  ChannelFlow flow;

  ValueId in(int i) const { return node.has_input(i) ? node.node().inputs[static_cast<size_t>(i)] : kNoValue; }
  ValueId out(int i = 0) const { return node.node().outputs[static_cast<size_t>(i)]; }
  void link(ValueId from, int64_t c, ValueId to, int64_t o) {
    flow.links.push_back({channels.number(from, c), channels.number(to, o)});
  }
  // Channel c of input i is channel c + shift of output `to`, for `count` channels from `first` on.
  void link_range(int i, int64_t first, int64_t count, ValueId to, int64_t shift) {
    for (int64_t c = first; c < first + count; ++c) link(in(i), c, to, c + shift);
  }
  bool link_all(int i, ValueId to) {
    if (channels.count(in(i)) == 0 || channels.count(in(i)) != channels.count(to)) return false;
    link_range(i, 0, channels.count(to), to, 0);
    return true;
  }
};

bool flow_of_product(FlowBuilder& b) {
  b.flow.product = as_channel_product(b.node);
  if (!b.flow.product) return false;
  const ChannelProduct& product = *b.flow.product;
  if (b.channels.count(b.in(0)) != product.in || b.channels.count(b.out()) != product.out) return false;
  if (product.group == 1) return true;
  // Groups go as wholes.
  for (int64_t g = 0; g < product.group; ++g) {
    const int64_t c = g * product.in_group(), o = g * product.out_group();
    for (int64_t i = 0; i < product.in_group(); ++i) b.link(b.in(0), c + i, b.out(), o);
    for (int64_t i = 0; i < product.out_group(); ++i) b.link(b.in(0), c, b.out(), o + i);
  }
  return true;
}

// Operands that are no constants have all channels, or one for all.
bool flow_of_pointwise(FlowBuilder& b) {
  const int64_t count = b.channels.count(b.out());
  const int rank = b.node.output(0).shape.rank;
  bool any = false;
  for (int i = 0; i < b.node.num_inputs(); ++i) {
    if (!b.node.has_input(i) || b.node.constant(i) != nullptr) continue;
    if (b.channels.count(b.in(i)) == 0 || b.node.input_shape(i).rank != rank) return false;
    if (b.link_all(i, b.out())) {
      any = true;
    } else {
      b.flow.fixed.push_back(b.channels.number(b.in(i), 0));
    }
  }
  return any && count > 0;
}

bool flow_of_pool(FlowBuilder& b) { return b.link_all(0, b.out()); }

bool flow_of_resize(FlowBuilder& b) {
  const Shape& x = b.node.input_shape(0);
  const Shape& y = b.node.output(0).shape;
  const bool crops = b.node.attr_string("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  for (int i = 1; i < b.node.num_inputs(); ++i) {
    if (b.node.has_input(i) && b.node.constant(i) == nullptr) return false;
  }
  return !crops && !b.node.has_attr("axes") && x.rank > 2 && x[0] == y[0] && b.link_all(0, b.out());
}

// (n, c, rest…) becomes (n, c * m, rest…): the elements keep their order.
bool flow_of_reshape(FlowBuilder& b) {
  const int64_t from = b.channels.count(b.in(0)), to = b.channels.count(b.out());
  if (from == 0 || to % from != 0 || b.node.input_shape(0)[0] != b.node.output(0).shape[0]) return false;
  if (is_onnx(b.node, "Reshape") && b.node.constant(1) == nullptr) return false;
  // Without axes a Squeeze would take the channels too, were there one left.
  if (is_onnx(b.node, "Squeeze") && !ints_of(b.node, "axes", 1)) return false;
  const int64_t times = to / from;
  for (int64_t o = 0; o < to; ++o) b.link(b.in(0), o / times, b.out(), o);
  return true;
}

bool flow_of_pad(FlowBuilder& b) {
  const auto pad = as_channel_pad(b.node);
  const int64_t count = b.channels.count(b.in(0));
  if (!pad || count == 0 || b.channels.count(b.out()) != pad->begin[1] + count + pad->end[1]) return false;
  if (pad->begin[0] != 0 || pad->end[0] != 0 || pad->begin[1] < 0 || pad->end[1] < 0) return false;
  b.link_range(0, 0, count, b.out(), pad->begin[1]);
  return true;
}

bool flow_of_slice(FlowBuilder& b) {
  const auto slice = as_channel_slice(b.node);
  const int64_t count = b.channels.count(b.out());
  if (!slice || b.channels.count(b.in(0)) < slice->begin + count) return false;
  b.link_range(0, slice->begin, count, b.out(), -slice->begin);
  return true;
}

bool flow_of_split(FlowBuilder& b) {
  int axis = 0;
  const Shape& shape = b.node.input_shape(0);
  if (b.channels.count(b.in(0)) == 0 || !normalize_axis(b.node.attr_int("axis", 0), shape.rank, &axis)) return false;
  int64_t begin = 0;
  for (int i = 0; i < b.node.num_outputs(); ++i) {
    if (!b.node.has_output(i) || b.channels.count(b.out(i)) == 0) return false;
    const int64_t count = b.channels.count(b.out(i));
    b.link_range(0, begin, count, b.out(i), -begin);
    if (axis == 1) begin += count;
  }
  return axis != 0;
}

bool flow_of_concat(FlowBuilder& b) {
  int axis = 0;
  const Shape& shape = b.node.output(0).shape;
  if (b.channels.count(b.out()) == 0 || !normalize_axis(b.node.attr_int("axis", 0), shape.rank, &axis)) return false;
  int64_t begin = 0;
  for (int i = 0; i < b.node.num_inputs(); ++i) {
    if (!b.node.has_input(i)) return false;
    if (b.node.constant(i) != nullptr && axis == 1 && b.node.input_shape(i).rank == shape.rank) {
      const int64_t count = b.node.input_shape(i)[1];
      for (int64_t c = 0; c < count; ++c) b.flow.fixed.push_back(b.channels.number(b.out(), begin + c));
      begin += count;
      continue;
    }
    const int64_t count = b.channels.count(b.in(i));
    if (count == 0) return false;
    b.link_range(i, 0, count, b.out(), axis == 1 ? begin : 0);
    if (axis == 1) begin += count;
  }
  return axis != 0;
}

struct Rule {
  const char* op;
  FlowKind kind;
  bool (*fill)(FlowBuilder& builder);
};

constexpr Rule kRules[] = {
    {"Conv", FlowKind::kProduct, flow_of_product},
    {"ConvTranspose", FlowKind::kProduct, flow_of_product},
    {"Gemm", FlowKind::kProduct, flow_of_product},
    {"MatMul", FlowKind::kProduct, flow_of_product},
    {"MaxPool", FlowKind::kPool, flow_of_pool},
    {"AveragePool", FlowKind::kPool, flow_of_pool},
    {"GlobalAveragePool", FlowKind::kPool, flow_of_pool},
    {"GlobalMaxPool", FlowKind::kPool, flow_of_pool},
    {"Resize", FlowKind::kResize, flow_of_resize},
    {"Upsample", FlowKind::kResize, flow_of_resize},
    {"Pad", FlowKind::kPad, flow_of_pad},
    {"Slice", FlowKind::kSlice, flow_of_slice},
    {"Split", FlowKind::kSplit, flow_of_split},
    {"Concat", FlowKind::kConcat, flow_of_concat},
};

bool is_even_conv(const NodeView& node) {
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  return auto_pad == "VALID" || (auto_pad == "NOTSET" && all_zero(node.attr_ints("pads")));
}

std::optional<ChannelProduct> as_conv(const NodeView& node) {
  const Tensor* w = f32_constant(node, 1);
  if (w == nullptr || w->shape().rank < 3 || node.is_nhwc()) return std::nullopt;
  const bool is_transposed = node.node().op == "ConvTranspose";
  const Shape& shape = w->shape();
  ChannelProduct product;
  product.weights = w->as<float>();
  product.group = node.attr_int("group", 1);
  product.taps = shape.product(2, shape.rank);
  product.in = is_transposed ? shape[0] : shape[1] * product.group;
  product.out = is_transposed ? shape[1] * product.group : shape[0];
  if (product.group < 1 || product.in < 1 || product.out < 1 || product.taps < 1) return std::nullopt;
  product.in_stride = is_transposed ? shape[1] * product.taps : product.taps;
  product.out_stride = is_transposed ? product.taps : shape[1] * product.taps;
  product.group_stride = w->num_elements() / product.group;
  product.is_even = !is_transposed && is_even_conv(node);
  product.bias = std::vector<double>(static_cast<size_t>(product.out), 0.0);
  if (node.has_input(2)) {
    if (f32_constant(node, 2) == nullptr) return std::nullopt;
    product.bias = channel_constant(node.graph(), node.node().inputs[2], 1, 0, product.out);
  }
  return product;
}

std::optional<ChannelProduct> as_gemm(const NodeView& node) {
  const Tensor* w = f32_constant(node, 1);
  const bool is_gemm = node.node().op == "Gemm";
  if (w == nullptr || w->shape().rank != 2 || node.input_shape(0).rank != 2 || node.attr_int("transA", 0) != 0) {
    return std::nullopt;
  }
  const bool by_row = is_gemm && node.attr_int("transB", 0) != 0;
  ChannelProduct product;
  product.weights = w->as<float>();
  product.in = w->shape()[by_row ? 1 : 0];
  product.out = w->shape()[by_row ? 0 : 1];
  if (product.in < 1 || product.out < 1) return std::nullopt;
  product.in_stride = by_row ? 1 : product.out;
  product.out_stride = by_row ? product.in : 1;
  product.alpha = is_gemm ? node.attr_float("alpha", 1.0f) : 1.0;
  product.bias = std::vector<double>(static_cast<size_t>(product.out), 0.0);
  if (node.has_input(2)) {
    if (f32_constant(node, 2) == nullptr) return std::nullopt;
    product.bias = channel_constant(node.graph(), node.node().inputs[2], 2, 1, product.out);
    const double beta = is_gemm ? node.attr_float("beta", 1.0f) : 1.0;
    if (product.bias) {
      for (double& bias : *product.bias) bias *= beta;
    }
  }
  return product;
}

}  // namespace

ChannelNumbers::ChannelNumbers(const Graph& graph) {
  for (const Value& value : graph.values) {
    const bool is_counted = value.dtype == DType::kF32 && value.constant == nullptr && value.shape.rank >= 2 &&
                            value.shape[1] <= kMostChannels;
    first_.push_back(size_);
    counts_.push_back(is_counted ? value.shape[1] : 0);
    size_ += counts_.back();
  }
}

bool ChannelProduct::has_weight(int64_t o, int64_t c) const {
  const float* tap = at(o, c);
  return std::any_of(tap, tap + taps, [](float weight) { return weight != 0; });
}

double ChannelProduct::sum(int64_t o, int64_t c) const {
  const float* tap = at(o, c);
  double total = 0;
  for (int64_t t = 0; t < taps; ++t) total += tap[t];
  return total;
}

float ChannelProduct::largest(int64_t o) const {
  float found = 0;
  for (int64_t c = first_in(o); c < first_in(o) + in_group(); ++c) {
    for (int64_t t = 0; t < taps; ++t) found = std::max(found, std::fabs(at(o, c)[t]));
  }
  return found;
}

std::optional<ChannelProduct> as_channel_product(const NodeView& node) {
  if (node.has_attr("activation") || node.has_attr("residual") || node.has_input(3)) return std::nullopt;
  if (is_onnx(node, "Conv") || is_onnx(node, "ConvTranspose")) return as_conv(node);
  if (is_onnx(node, "Gemm") || is_onnx(node, "MatMul")) return as_gemm(node);
  return std::nullopt;
}

std::optional<ChannelPad> as_channel_pad(const NodeView& node) {
  const size_t rank = static_cast<size_t>(node.input_shape(0).rank);
  const auto pads = ints_of(node, "pads", 1);
  if (!pads || pads->size() != 2 * rank || node.attr_string("mode", "constant") != "constant" || node.has_input(3)) {
    return std::nullopt;
  }
  ChannelPad pad;
  pad.begin.assign(pads->begin(), pads->begin() + static_cast<ptrdiff_t>(rank));
  pad.end.assign(pads->begin() + static_cast<ptrdiff_t>(rank), pads->end());
  pad.fill = node.attr_float("value", 0.0f);
  if (node.has_input(2)) {
    const auto fill = splat_constant(node.graph(), node.node().inputs[2]);
    if (!fill) return std::nullopt;
    pad.fill = *fill;
  }
  return pad;
}

std::optional<ChannelSlice> as_channel_slice(const NodeView& node) {
  const Shape& shape = node.input_shape(0);
  const auto starts = ints_of(node, "starts", 1);
  auto axes = ints_of(node, "axes", 3);
  const auto steps = ints_of(node, "steps", 4);
  if (!starts || (node.has_input(3) && !axes) || (node.has_input(4) && !steps)) return std::nullopt;
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  ChannelSlice slice;
  for (size_t i = 0; i < axes->size() && i < starts->size(); ++i) {
    int axis = 0;
    if (!normalize_axis((*axes)[i], shape.rank, &axis) || axis == 0) return std::nullopt;
    if (axis != 1) continue;
    if ((steps && (i >= steps->size() || (*steps)[i] != 1)) || node.opset() < 10 || slice.entry >= 0)
      return std::nullopt;
    slice.entry = static_cast<int>(i);
    const int64_t start = (*starts)[i];
    slice.begin = std::clamp<int64_t>(start < 0 ? start + shape[1] : start, 0, shape[1]);
  }
  return slice;
}

ChannelFlow find_channel_flow(const OpRegistry& ops, const NodeView& node, const ChannelNumbers& channels) {
  FlowBuilder builder{node, channels, {}};
  const bool has_one_output = node.num_outputs() == 1 || is_onnx(node, "Split");
  if (!has_one_output || !node.has_input(0) || !node.has_output(0)) return {};
  const OpDef* def = ops.find(node.node());
  Rule rule = {"", FlowKind::kOpaque, nullptr};
  for (const Rule& each : kRules) {
    if (is_onnx(node, each.op)) rule = each;
  }
  if (is_reshape(node.node())) rule = {"", FlowKind::kReshape, flow_of_reshape};
  if (def != nullptr && def->pointwise) rule = {"", FlowKind::kPointwise, flow_of_pointwise};
  if (rule.fill == nullptr || !rule.fill(builder)) return {};
  builder.flow.kind = rule.kind;
  return std::move(builder.flow);
}

}  // namespace kiln
