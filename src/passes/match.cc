#include "passes/match.h"

#include <cmath>
#include <limits>

namespace kiln {

int onnx_opset(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.domain.empty()) return node.opset;
  }
  return 13;
}

Node make_node(const char* op, int opset, const std::string& name, std::vector<ValueId> inputs, ValueId output) {
  Node node;
  node.op = op;
  node.opset = opset;
  node.name = name;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  return node;
}

std::optional<double> splat_constant(const Graph& graph, ValueId id) {
  if (!graph.is_constant(id)) return std::nullopt;
  const Tensor& tensor = *graph.value(id).constant;
  const int64_t n = tensor.num_elements();
  if (n < 1) return std::nullopt;
  const double first = element_as_f64(tensor.dtype(), tensor.data(), 0);
  for (int64_t i = 1; i < n; ++i) {
    if (element_as_f64(tensor.dtype(), tensor.data(), i) != first) return std::nullopt;
  }
  return first;
}

bool is_splat(const Graph& graph, ValueId id, double expected) {
  const std::optional<double> found = splat_constant(graph, id);
  return found && std::fabs(*found - expected) <= 1e-6 * std::fabs(expected);
}

std::optional<std::vector<double>> channel_constant(const Graph& graph, ValueId id, int rank, int axis,
                                                    int64_t channels) {
  if (!graph.is_constant(id)) return std::nullopt;
  const Tensor& tensor = *graph.value(id).constant;
  const Shape& shape = tensor.shape();
  if (shape.rank > rank) return std::nullopt;
  const int64_t n = tensor.num_elements();
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] != 1 && (i + rank - shape.rank != axis || shape[i] != channels)) return std::nullopt;
  }
  if (n != 1 && n != channels) return std::nullopt;
  std::vector<double> values(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    values[static_cast<size_t>(c)] = element_as_f64(tensor.dtype(), tensor.data(), n == 1 ? 0 : c);
  }
  return values;
}

Tensor make_f32(const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DType::kF32, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.as<float>()[i] = static_cast<float>(values[i]);
  return tensor;
}

std::optional<std::vector<int64_t>> ints_of(const NodeView& node, const char* name, int i) {
  if (!node.has_input(i)) {
    if (!node.has_attr(name)) return std::nullopt;
    return node.attr_ints(name);
  }
  const Tensor* tensor = node.constant(i);
  if (tensor == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t k = 0; k < tensor->num_elements(); ++k)
    values.push_back(element_as_i64(tensor->dtype(), tensor->data(), k));
  return values;
}

std::optional<ClipBounds> clip_bounds(const NodeView& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!node.node().domain.empty()) return std::nullopt;
  if (node.node().op == "Relu") return ClipBounds{0, kInfinity};
  if (node.node().op != "Clip") return std::nullopt;
  ClipBounds bounds{-kInfinity, kInfinity};
  if (node.opset() < 11) {
    bounds.min = node.attr_float("min", bounds.min);
    bounds.max = node.attr_float("max", bounds.max);
    return bounds;
  }
  for (int i = 1; i <= 2; ++i) {
    if (!node.has_input(i)) continue;
    const Tensor* bound = node.constant(i);
    if (bound == nullptr || bound->num_elements() != 1) return std::nullopt;
    (i == 1 ? bounds.min : bounds.max) = static_cast<float>(element_as_f64(bound->dtype(), bound->data(), 0));
  }
  return bounds;
}

bool is_f32(const Graph& graph, ValueId id) { return id != kNoValue && graph.value(id).dtype == DType::kF32; }

}  // namespace kiln
