#include "passes/carry_quantized.h"

#include "passes/merge_reshapes.h"
#include "passes/perm.h"

namespace kiln {
namespace {

using QuantizedPtr = std::shared_ptr<const QuantizedConstant>;

bool is_per_tensor(const QuantizedConstant& quantized) { return quantized.scale->num_elements() == 1; }

QuantizedPtr dequantized(const Graph& graph, const Node& node) {
  const Value& q = graph.value(node.inputs[0]);
  const Value& scale = graph.value(node.inputs[1]);
  if ((q.dtype != DType::kI8 && q.dtype != DType::kU8) || scale.dtype != DType::kF32) return nullptr;
  if (graph.value(node.outputs[0]).dtype != DType::kF32) return nullptr;
  QuantizedConstant quantized;
  quantized.values = q.constant;
  quantized.scale = scale.constant;
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) quantized.zero_point = graph.value(node.inputs[2]).constant;
  if (!is_per_tensor(quantized) && !normalize_axis(attr_int(node, "axis", 1), q.shape.rank, &quantized.axis)) {
    return nullptr;
  }
  return std::make_shared<const QuantizedConstant>(std::move(quantized));
}

QuantizedPtr transposed(const QuantizedConstant& from, const Perm& perm) {
  QuantizedConstant to = from;
  to.values = std::make_shared<const Tensor>(permute(*from.values, perm));
  for (size_t i = 0; i < perm.size() && !is_per_tensor(from); ++i) {
    if (perm[i] == from.axis) to.axis = static_cast<int>(i);
  }
  return std::make_shared<const QuantizedConstant>(std::move(to));
}

// The axis must still be there: as long, with as many elements before it.
QuantizedPtr reshaped(const QuantizedConstant& from, const Shape& shape) {
  const Shape& old = from.values->shape();
  QuantizedConstant to = from;
  if (!is_per_tensor(from)) {
    to.axis = 0;
    const int64_t before = old.product(0, from.axis);
    while (to.axis < shape.rank && (shape[to.axis] != old[from.axis] || shape.product(0, to.axis) != before)) ++to.axis;
    if (to.axis == shape.rank) return nullptr;
  }
  auto values = std::make_shared<Tensor>(*from.values);
  values->reshape(shape);
  to.values = std::move(values);
  return std::make_shared<const QuantizedConstant>(std::move(to));
}

}  // namespace

void carry_quantized(Graph& graph, const Node& node) {
  if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.size() != 1) return;
  Value& out = graph.value(node.outputs[0]);
  if (node.op == "DequantizeLinear") {
    out.quantized = dequantized(graph, node);
    return;
  }
  const QuantizedPtr from = graph.value(node.inputs[0]).quantized;
  if (from == nullptr || !node.domain.empty()) return;
  if (node.op == "Identity") {
    out.quantized = from;
  } else if (node.op == "Transpose") {
    out.quantized = transposed(*from, perm_of(NodeView(graph, node)));
  } else if (is_reshape(node)) {
    out.quantized = reshaped(*from, out.shape);
  }
}

}  // namespace kiln
