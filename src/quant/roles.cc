#include "quant/roles.h"

#include <algorithm>

#include "passes/match.h"

namespace kiln {
namespace {

bool is_float_input(const NodeView& node, size_t i) {
  return node.has_input(static_cast<int>(i)) && node.input_dtype(static_cast<int>(i)) == DType::kF32 &&
         node.constant(static_cast<int>(i)) == nullptr;
}

bool is_quantisable_conv(const NodeView& node) {
  if (!node.is_nhwc() || node.attr_string("input_layout", "NHWC") != "NHWC" || node.input_shape(0).rank > 4)
    return false;
  return node.constant(1) != nullptr && (!node.has_input(2) || node.constant(2) != nullptr);
}

bool is_quantisable_product(const NodeView& node) {
  const Shape& x = node.input_shape(0);
  const Shape& w = node.input_shape(1);
  if (node.constant(1) == nullptr || w.rank != 2 || x.rank < 2 || x.rank > 4) return false;
  if (node.node().op == "MatMul") return true;
  return node.attr_int("transA", 0) == 0 && node.attr_float("alpha", 1) == 1 && node.attr_float("beta", 1) == 1 &&
         (!node.has_input(2) ||
          channel_constant(node.graph(), node.node().inputs[2], 2, 1, node.output(0).shape[1]).has_value());
}

bool is_table(const NodeView& node, const OpDef& def) {
  if (!def.pointwise) return false;
  int computed = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!node.has_input(i)) continue;
    if (node.constant(i) == nullptr)
      ++computed;
    else if (node.input_shape(i).num_elements() != 1)
      return false;
  }
  return computed == 1 && is_float_input(node, 0) && node.input_shape(0) == node.output(0).shape;
}

bool only_moves(const NodeView& node) {
  static constexpr const char* kMoves[] = {"Transpose", "Reshape", "Flatten",  "Squeeze",      "Unsqueeze",
                                           "Split",     "Slice",   "Identity", "DepthToSpace", "SpaceToDepth"};
  const std::string& op = node.node().op;
  if (std::any_of(std::begin(kMoves), std::end(kMoves), [&](const char* name) { return op == name; })) return true;
  if (op == "MaxPool") return !node.has_output(1);
  if (op == "GlobalMaxPool") return true;
  if (op != "Resize" && op != "Upsample") return false;
  return node.attr_string("mode", "nearest") == "nearest" &&
         node.attr_string("coordinate_transformation_mode", "") != "tf_crop_and_resize";
}

}  // namespace

Role role_of(const NodeView& node, const OpRegistry& ops) {
  if (node.node().outputs.empty() || !node.has_output(0) || node.output(0).dtype != DType::kF32) return Role::kFloat;
  if (node.num_inputs() == 0 || !node.has_input(0) || node.output(0).shape.num_elements() == 0) return Role::kFloat;
  const std::string& op = node.node().op;
  const bool is_onnx = node.node().domain.empty();
  if (is_onnx && (op == "Conv" || op == "Gemm" || op == "MatMul")) {
    if (!is_float_input(node, 0)) return Role::kFloat;
    return (op == "Conv" ? is_quantisable_conv(node) : is_quantisable_product(node)) ? Role::kProduct : Role::kFloat;
  }
  if (is_onnx && op == "Concat") {
    for (size_t i = 0; i < node.node().inputs.size(); ++i) {
      if (!is_float_input(node, i)) return Role::kFloat;
    }
    return Role::kJoin;
  }
  if (is_onnx && only_moves(node)) return is_float_input(node, 0) ? Role::kMove : Role::kFloat;
  const OpDef* def = ops.find(node.node());
  if (def == nullptr || op == "QuantizeLinear" || op == "DequantizeLinear") return Role::kFloat;
  if (is_table(node, *def)) return Role::kTable;
  const bool is_sum = is_onnx && (op == "Add" || op == "Mul") && is_float_input(node, 0) && is_float_input(node, 1);
  const std::string activation = node.attr_string("activation", "");
  return is_sum && (activation.empty() || activation == "Clip") ? Role::kSum : Role::kFloat;
}

std::vector<size_t> data_inputs(const NodeView& node, Role role) {
  switch (role) {
    case Role::kFloat:
      return {};
    case Role::kProduct:
      return node.has_input(3) ? std::vector<size_t>{0, 3} : std::vector<size_t>{0};
    case Role::kSum:
      return {0, 1};
    case Role::kTable:
    case Role::kMove:
      return {0};
    case Role::kJoin:
      break;
  }
  std::vector<size_t> all;
  for (size_t i = 0; i < node.node().inputs.size(); ++i) all.push_back(i);
  return all;
}

int64_t product_macs(const NodeView& node) {
  const std::string& op = node.node().op;
  if (!node.node().domain.empty() || !node.has_output(0)) return 0;
  const int64_t outputs = node.output(0).shape.num_elements();
  if (op == "Conv") {
    const Shape& w = node.input_shape(1);
    return w[0] > 0 ? outputs * (w.num_elements() / w[0]) : 0;
  }
  if (op != "Gemm" && op != "MatMul") return 0;
  const Shape& x = node.input_shape(0);
  return outputs * (op == "Gemm" && node.attr_int("transA", 0) != 0 ? x[0] : x[x.rank - 1]);
}

}  // namespace kiln
