#include "passes/affine.h"

#include <cmath>

namespace kiln {

std::optional<Affine> batch_norm_as_affine(Rewriter& rewriter, int n) {
  if (!rewriter.is_op(n, "BatchNormalization")) return std::nullopt;
  const NodeView node = rewriter.view(n);
  if (node.opset() >= 14 && node.attr_int("training_mode", 0) != 0) return std::nullopt;
  for (int i = 1; i < node.num_outputs(); ++i) {
    if (!node.has_output(i)) continue;
    const ValueId extra = node.node().outputs[static_cast<size_t>(i)];
    if (!rewriter.consumers(extra).empty() || rewriter.is_output(extra)) return std::nullopt;
  }
  const Tensor* parameters[4];  // scale, bias, mean, variance
  for (int i = 0; i < 4; ++i) {
    parameters[i] = node.constant(i + 1);
    if (parameters[i] == nullptr || parameters[i]->dtype() != DType::kF32) return std::nullopt;
  }
  const int64_t channels = parameters[0]->num_elements();
  const double epsilon = node.attr_float("epsilon", 1e-5f);
  Affine affine;
  affine.x = node.node().inputs[0];
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = parameters[0]->as<float>()[c] / std::sqrt(parameters[3]->as<float>()[c] + epsilon);
    affine.scale.push_back(scale);
    affine.shift.push_back(parameters[1]->as<float>()[c] - scale * parameters[2]->as<float>()[c]);
  }
  return affine;
}

std::optional<Affine> arithmetic_as_affine(Rewriter& rewriter, int n, int axis, int64_t channels) {
  const Node& node = rewriter.node(n);
  const bool is_sum = rewriter.is_op(n, "Add") || rewriter.is_op(n, "Sub");
  const bool is_product = rewriter.is_op(n, "Mul") || rewriter.is_op(n, "Div");
  if (!(is_sum || is_product) || has_attr(node, "activation")) return std::nullopt;
  const bool is_symmetric = node.op == "Add" || node.op == "Mul";
  const int x = rewriter.is_constant(node.inputs[1]) ? 0 : 1;
  if (x == 1 && !is_symmetric) return std::nullopt;
  const ValueId id = node.inputs[static_cast<size_t>(x)];
  const Value& value = rewriter.value(id);
  if (value.constant || !(value.shape == rewriter.value(node.outputs[0]).shape) || value.dtype != DType::kF32) {
    return std::nullopt;
  }
  auto constants =
      channel_constant(rewriter.graph(), node.inputs[static_cast<size_t>(1 - x)], value.shape.rank, axis, channels);
  if (!constants) return std::nullopt;
  Affine affine;
  affine.x = id;
  for (double c : *constants) {
    if (node.op == "Div" && c == 0) return std::nullopt;
    affine.scale.push_back(node.op == "Mul" ? c : (node.op == "Div" ? 1 / c : 1));
    affine.shift.push_back(node.op == "Add" ? c : (node.op == "Sub" ? -c : 0));
  }
  return affine;
}

}  // namespace kiln
