#include "passes/batch_axis.h"

#include <algorithm>
#include <string_view>

#include "ops/definition.h"

namespace kiln {
namespace {

constexpr int kNone = -1;   // the same whatever the batch holds
constexpr int kMixed = -2;  // rows meet

// Where each input of a node has the batch; absent inputs are kNone. Rules are asked only where some input has one and
// none is kMixed.
using Axes = std::vector<int>;

bool others_are_free(const Axes& in, size_t except) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (i != except && in[i] != kNone) return false;
  }
  return true;
}

int first_output(const NodeView& node) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.has_output(i)) return i;
  }
  return 0;
}

const Shape& output_shape(const NodeView& node) { return node.output(first_output(node)).shape; }

int positive(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

bool contains(const std::vector<int64_t>& axes, int axis, int rank) {
  return std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return positive(a, rank) == axis; });
}

// The integers of constant input i. False if it is there but no constant.
bool read_ints(const NodeView& node, int i, std::vector<int64_t>& values) {
  values.clear();
  if (!node.has_input(i)) return true;
  const Tensor* constant = node.constant(i);
  if (constant == nullptr) return false;
  for (int64_t k = 0; k < constant->num_elements(); ++k) {
    values.push_back(element_as_i64(constant->dtype(), constant->data(), k));
  }
  return true;
}

// NumPy broadcasting lines axes up from the right.
int broadcast(const NodeView& node, const Axes& in) {
  const int rank = output_shape(node).rank;
  int result = kNone;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] == kNone) continue;
    const int axis = in[i] + rank - node.input_shape(static_cast<int>(i)).rank;
    if (result != kNone && result != axis) return kMixed;
    result = axis;
  }
  return result;
}

int first_alone(const NodeView&, const Axes& in) { return others_are_free(in, 0) ? in[0] : kMixed; }

// (N, C, spatial…)
int spatial(const NodeView& node, const Axes& in) {
  const bool keeps = in[0] == 0 && others_are_free(in, 0) && output_shape(node)[0] == node.input_shape(0)[0];
  return keeps ? 0 : kMixed;
}

// Training takes mean and variance over the batch.
int batch_norm(const NodeView& node, const Axes& in) {
  return node.opset() >= 14 && node.attr_int("training_mode", 0) != 0 ? kMixed : spatial(node, in);
}

int resize(const NodeView& node, const Axes& in) {
  const bool crops = node.attr_string("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  return crops ? kMixed : spatial(node, in);
}

int gemm(const NodeView& node, const Axes& in) {
  if (in[0] != (node.attr_int("transA", 0) != 0 ? 1 : 0) || in[1] != kNone) return kMixed;
  if (in.size() < 3 || in[2] == kNone) return 0;
  return in[2] + 2 - node.input_shape(2).rank == 0 ? 0 : kMixed;
}

int matmul(const NodeView& node, const Axes& in) {
  const int rank_a = node.input_shape(0).rank;
  const int rank_b = node.input_shape(1).rank;
  const int rank = output_shape(node).rank + (rank_a == 1 ? 1 : 0) + (rank_b == 1 ? 1 : 0);
  // As axes of the product before the 1 that a vector stands for is taken away.
  const int a = in[0] == kNone ? kNone : in[0] + rank - std::max(rank_a, 2);
  const int b = in[1] == kNone ? kNone : in[1] + rank - std::max(rank_b, 2);
  if (rank_a < 2 || rank_b < 2) return in[1] == kNone && rank_a >= 2 && a <= rank - 2 ? a : kMixed;
  if (in[1] == kNone) return a <= rank - 2 ? a : kMixed;
  if (in[0] == kNone) return b != rank - 2 ? b : kMixed;
  return a == b && a < rank - 2 ? a : kMixed;
}

int softmax(const NodeView& node, const Axes& in) {
  const bool flattens = node.opset() < 13;  // axes from `axis` on count as one
  const int axis = positive(node.attr_int("axis", flattens ? 1 : -1), node.input_shape(0).rank);
  return (flattens ? in[0] < axis : in[0] != axis) ? in[0] : kMixed;
}

int layer_norm(const NodeView& node, const Axes& in) {
  const int axis = positive(node.attr_int("axis", -1), node.input_shape(0).rank);
  return others_are_free(in, 0) && in[0] < axis ? in[0] : kMixed;
}

int reduce(const NodeView& node, const Axes& in) {
  std::vector<int64_t> axes = node.attr_ints("axes");
  if (in[0] == kNone || (axes.empty() && !read_ints(node, 1, axes))) return kMixed;
  const int rank = node.input_shape(0).rank;
  if (axes.empty()) return node.attr_int("noop_with_empty_axes", 0) != 0 ? in[0] : kMixed;
  if (contains(axes, in[0], rank)) return kMixed;
  if (node.attr_int("keepdims", 1) != 0) return in[0];
  const auto before = [&](int64_t a) { return positive(a, rank) < in[0]; };
  return in[0] - static_cast<int>(std::count_if(axes.begin(), axes.end(), before));
}

int arg_max(const NodeView& node, const Axes& in) {
  const int axis = positive(node.attr_int("axis", 0), node.input_shape(0).rank);
  if (axis == in[0]) return kMixed;
  return node.attr_int("keepdims", 1) == 0 && axis < in[0] ? in[0] - 1 : in[0];
}

// Operators along one axis given as an attribute.
template <int kDefault>
int along(const NodeView& node, const Axes& in) {
  const int axis = positive(node.attr_int("axis", kDefault), node.input_shape(0).rank);
  return others_are_free(in, 0) && axis != in[0] ? in[0] : kMixed;
}

int cum_sum(const NodeView& node, const Axes& in) {
  std::vector<int64_t> axes;
  if (!read_ints(node, 1, axes) || axes.size() != 1) return kMixed;
  return positive(axes[0], node.input_shape(0).rank) != in[0] ? in[0] : kMixed;
}

int concat(const NodeView& node, const Axes& in) {
  const int axis = positive(node.attr_int("axis", 0), output_shape(node).rank);
  int result = kNone;
  for (int a : in) {
    if (a == kNone) continue;
    if (a == axis || (result != kNone && a != result)) return kMixed;
    result = a;
  }
  return result;
}

// Slices of the batch that take all of it are none.
int slice(const NodeView& node, const Axes& in) {
  std::vector<int64_t> axes = node.attr_ints("axes");
  std::vector<int64_t> steps;
  if (!others_are_free(in, 0) || (node.opset() >= 10 && (!read_ints(node, 3, axes) || !read_ints(node, 4, steps)))) {
    return kMixed;
  }
  const Shape& shape = node.input_shape(0);
  const bool is_whole = output_shape(node)[in[0]] == shape[in[0]];
  if (axes.empty()) return is_whole && steps.empty() ? in[0] : kMixed;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool is_batch = positive(axes[i], shape.rank) == in[0];
    if (is_batch && (!is_whole || (i < steps.size() && steps[i] != 1))) return kMixed;
  }
  return in[0];
}

int gather(const NodeView& node, const Axes& in) {
  const int axis = positive(node.attr_int("axis", 0), node.input_shape(0).rank);
  if (in[0] == kNone) return axis + in[1];
  if (in[1] != kNone || in[0] == axis) return kMixed;
  return in[0] < axis ? in[0] : in[0] + node.input_shape(1).rank - 1;
}

int gather_elements(const NodeView& node, const Axes& in) {
  const int axis = positive(node.attr_int("axis", 0), node.input_shape(0).rank);
  return in[0] == in[1] && in[0] != axis ? in[0] : kMixed;
}

int transpose(const NodeView& node, const Axes& in) {
  const std::vector<int64_t> perm = node.attr_ints("perm");
  const int rank = node.input_shape(0).rank;
  if (perm.empty()) return rank - 1 - in[0];
  return static_cast<int>(std::find(perm.begin(), perm.end(), in[0]) - perm.begin());
}

// The elements stay in order: the axis is still there if as many elements lie before it and it is as long.
int reshape(const NodeView& node, const Axes& in) {
  if (!others_are_free(in, 0)) return kMixed;
  const Shape& from = node.input_shape(0);
  const Shape& to = output_shape(node);
  int64_t wanted = 1;
  for (int i = 0; i < in[0]; ++i) wanted *= from[i];
  int64_t before = 1;
  for (int i = 0; i < to.rank; before *= to[i++]) {
    if (before == wanted && to[i] == from[in[0]]) return i;
  }
  return kMixed;
}

int tile(const NodeView& node, const Axes& in) {
  std::vector<int64_t> repeats;
  const bool known = read_ints(node, 1, repeats) && static_cast<size_t>(in[0]) < repeats.size();
  return known && repeats[static_cast<size_t>(in[0])] == 1 ? in[0] : kMixed;
}

int pad(const NodeView& node, const Axes& in) {
  std::vector<int64_t> pads = node.attr_ints(node.has_attr("paddings") ? "paddings" : "pads");
  std::vector<int64_t> axes;
  if (!others_are_free(in, 0) || (pads.empty() && !read_ints(node, 1, pads)) || !read_ints(node, 3, axes))
    return kMixed;
  const int rank = node.input_shape(0).rank;
  for (int i = 0; axes.empty() && i < rank; ++i) axes.push_back(i);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (positive(axes[i], rank) != in[0]) continue;
    if (axes.size() + i >= pads.size() || pads[i] != 0 || pads[axes.size() + i] != 0) return kMixed;
  }
  return in[0];
}

int one_hot(const NodeView& node, const Axes& in) {
  if (!others_are_free(in, 0)) return kMixed;
  const int axis = positive(node.attr_int("axis", -1), output_shape(node).rank);
  return in[0] < axis ? in[0] : in[0] + 1;
}

int trilu(const NodeView& node, const Axes& in) { return in[0] < node.input_shape(0).rank - 2 ? in[0] : kMixed; }

struct Rule {
  int (*rule)(const NodeView& node, const Axes& in);
  const char* ops;  // between blanks
};

constexpr Rule kRules[] = {
    {broadcast,
     " Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu "
     "Greater "
     "GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg "
     "Not Or "
     "PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Tan Tanh "
     "ThresholdedRelu "
     "Where Xor "},
    {first_alone, " Cast DequantizeLinear Dropout Identity QuantizeLinear "},
    {spatial,
     " AveragePool Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool "
     "InstanceNormalization LRN LpPool MaxPool QLinearConv SpaceToDepth "},
    {batch_norm, " BatchNormalization "},
    {resize, " Resize Upsample "},
    {gemm, " Gemm "},
    {matmul, " MatMul "},
    {softmax, " Softmax LogSoftmax "},
    {layer_norm, " LayerNormalization "},
    {reduce,
     " ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare "},
    {arg_max, " ArgMax ArgMin "},
    {along<-1>, " TopK "},
    {along<0>, " Split "},
    {cum_sum, " CumSum "},
    {concat, " Concat "},
    {slice, " Slice "},
    {gather, " Gather "},
    {gather_elements, " GatherElements "},
    {transpose, " Transpose "},
    {reshape, " Flatten Reshape Squeeze Unsqueeze "},
    {broadcast, " Expand "},
    {tile, " Tile "},
    {pad, " Pad "},
    {one_hot, " OneHot "},
    {trilu, " Trilu "},
};

int follow(const NodeView& node, const Axes& in) {
  if (!node.node().domain.empty()) return kMixed;
  const std::string name = " " + node.node().op + " ";
  for (const Rule& rule : kRules) {
    if (std::string_view(rule.ops).find(name) != std::string_view::npos) return rule.rule(node, in);
  }
  return kMixed;
}

}  // namespace

bool rows_are_independent(const Graph& graph, const std::vector<ValueId>& inputs) {
  std::vector<int> axis_of(graph.values.size(), kNone);
  for (ValueId id : inputs) axis_of[static_cast<size_t>(id)] = 0;
  for (const Node& node : graph.nodes) {
    Axes in;
    bool any = false;
    bool mixed = false;
    for (ValueId id : node.inputs) {
      in.push_back(id == kNoValue ? kNone : axis_of[static_cast<size_t>(id)]);
      any = any || in.back() != kNone;
      mixed = mixed || in.back() == kMixed;
    }
    if (!any) continue;
    const int axis = mixed ? kMixed : follow(NodeView(graph, node), in);
    for (ValueId id : node.outputs) {
      if (id != kNoValue) axis_of[static_cast<size_t>(id)] = axis;
    }
  }
  return !inputs.empty() && std::all_of(graph.outputs.begin(), graph.outputs.end(),
                                        [&](ValueId id) { return axis_of[static_cast<size_t>(id)] == 0; });
}

bool sizes_meet_data(const Graph& graph) {
  // What takes sizes as arguments behind its first input, which is the data.
  constexpr std::string_view kTakesSizes =
      " ConstantOfShape Expand Gather GatherND OneHot Pad Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
      "ReduceMax "
      "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Resize Slice Split Squeeze Tile TopK Trilu "
      "Unsqueeze Upsample ";
  std::vector<bool> is_size(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    bool takes_size = node.domain.empty() && (node.op == "Shape" || node.op == "Size");
    const bool measures = takes_size;
    bool takes_data = false;
    bool size_comes_first = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || graph.is_constant(id)) continue;
      const bool size = is_size[static_cast<size_t>(id)];
      takes_size = takes_size || size;
      takes_data = takes_data || !size;
      size_comes_first = size_comes_first || (size && i == 0);
    }
    if (!takes_size) continue;
    if (takes_data && !measures) {
      const bool allowed = node.domain.empty() && kTakesSizes.find(" " + node.op + " ") != std::string_view::npos;
      if (!allowed || size_comes_first) return true;
      continue;  // the result is data
    }
    for (ValueId id : node.outputs) {
      if (id != kNoValue) is_size[static_cast<size_t>(id)] = true;
    }
  }
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](ValueId id) { return is_size[static_cast<size_t>(id)]; });
}

}  // namespace kiln
