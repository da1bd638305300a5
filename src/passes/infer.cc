#include "passes/infer.h"

#include <unordered_set>

#include "passes/carry_quantized.h"

namespace kiln {
namespace {

bool has_type(const Value& value) { return value.dtype != DType::kInvalid && value.shape.is_static(); }

bool inputs_have_types(const Graph& graph, const Node& node) {
  for (ValueId id : node.inputs) {
    if (id != kNoValue && !has_type(graph.value(id))) return false;
  }
  return true;
}

bool inputs_are_constant(const Graph& graph, const Node& node) {
  for (ValueId id : node.inputs) {
    if (id != kNoValue && !graph.is_constant(id)) return false;
  }
  return true;
}

constexpr int64_t kMany = int64_t{1} << 40;

// Bytes of the values that are there, or kMany if there are more.
int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& ids) {
  int64_t total = 0;
  for (ValueId id : ids) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    const int64_t n = value.shape.num_elements();
    if (n < 0 || n > kMany) return kMany;
    total += n * static_cast<int64_t>(dtype_bytes(value.dtype));
    if (total > kMany) return kMany;
  }
  return total;
}

void set_constant(Graph& graph, ValueId id, Tensor tensor) {
  if (id != kNoValue) graph.value(id).constant = std::make_shared<const Tensor>(std::move(tensor));
}

// Shape and Size depend on the type of their input alone.
bool fold_shape(Graph& graph, const Node& node) {
  if (!node.domain.empty() || (node.op != "Shape" && node.op != "Size") || node.outputs.size() != 1) return false;
  const Shape& shape = graph.value(node.inputs[0]).shape;
  if (node.op == "Size") {
    Tensor size(DType::kI64, Shape{});
    *size.as<int64_t>() = shape.num_elements();
    set_constant(graph, node.outputs[0], std::move(size));
    return true;
  }
  const auto clamp = [&](int64_t axis) {
    if (axis < 0) axis += shape.rank;
    return axis < 0 ? 0 : (axis > shape.rank ? shape.rank : axis);
  };
  const int64_t begin = clamp(attr_int(node, "start", 0));
  const int64_t end = clamp(attr_int(node, "end", shape.rank));
  const int count = static_cast<int>(end > begin ? end - begin : 0);
  set_constant(graph, node.outputs[0], make_i64_vector(shape.dims + begin, count));
  return true;
}

// Runs the reference kernel if all inputs are constants and the result is small enough. False if the node stays.
Result<bool> fold_constants(Graph& graph, const OpRegistry& ops, const Node& node, const FoldLimits& limits,
                            int64_t& total_bytes) {
  const OpDef* def = ops.find(node);
  if (def == nullptr || def->reference == nullptr || !inputs_are_constant(graph, node)) return false;
  const int64_t bytes = bytes_of(graph, node.outputs);
  if (bytes > limits.node_bytes || total_bytes + bytes > limits.total_bytes) return false;
  total_bytes += bytes;
  std::vector<const Tensor*> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : graph.value(id).constant.get());
  KILN_ASSIGN(std::vector<Tensor> outputs, evaluate_node(ops, graph, node, inputs));
  for (size_t i = 0; i < node.outputs.size(); ++i) set_constant(graph, node.outputs[i], std::move(outputs[i]));
  carry_quantized(graph, node);
  return true;
}

// Sets the types of the node's outputs; false with problems added if it has none.
bool infer_one(Graph& graph, const OpRegistry& ops, const Node& node, std::vector<Problem>& problems) {
  Inference inference = infer_node(ops, graph, node);
  if (!inference.ok()) {
    for (Problem& problem : inference.problems) problems.push_back(std::move(problem));
    return false;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& type = inference.outputs[i];
    Value& value = graph.value(node.outputs[i]);
    value.dtype = type.dtype;
    value.shape = type.shape;
    if (type.dtype != DType::kInvalid && type.shape.is_static() && type.shape.num_elements() >= 0) continue;
    Problem problem;
    problem.code = Code::kUnsupported;
    problem.node = node.name;
    problem.op = node.op;
    problem.opset = node.opset;
    problem.attribute = strf("output %zu", i);
    problem.value = type.dtype == DType::kInvalid ? "not defined" : print_shape(type.shape);
    problem.supported = "outputs of ONNX's definition, with at most 2^40 elements";
    problem.message = node.op + " '" + node.name + "'" + strf(" (opset %d): ", node.opset) + problem.attribute + "=" +
                      problem.value + " is not supported; supported: " + problem.supported;
    value.dtype = DType::kInvalid;
    problems.push_back(std::move(problem));
    return false;
  }
  return true;
}

// Takes back the folding of nodes that grow their inputs where all readers do without the constant.
void unfold_growth(Graph& graph, const OpRegistry& ops, std::vector<bool>& folded) {
  const Uses uses = compute_uses(graph);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (!folded[n] || node.outputs.size() != 1) continue;
    const ValueId id = node.outputs[0];
    if (bytes_of(graph, node.outputs) <= kMaxGrownBytes) continue;
    if (bytes_of(graph, node.outputs) / 8 < bytes_of(graph, node.inputs)) continue;
    bool read_at_run_time = uses.is_output[static_cast<size_t>(id)];
    const TensorPtr constant = graph.value(id).constant;
    Lowering lowering;
    bool needed = !lower_node(ops, graph, node, lowering).ok();
    graph.value(id).constant = nullptr;
    for (int reader : uses.consumers[static_cast<size_t>(id)]) {
      if (folded[static_cast<size_t>(reader)]) continue;
      read_at_run_time = true;
      needed = needed || !infer_node(ops, graph, graph.nodes[static_cast<size_t>(reader)]).ok();
    }
    if (read_at_run_time && !needed)
      folded[n] = false;
    else
      graph.value(id).constant = constant;
  }
}

bool is_known(const OpRegistry& ops, const Node& node) {
  const OpDef* def = ops.find(node);
  return def != nullptr && node.opset >= def->min_opset;
}

}  // namespace

void infer_and_fold(Graph& graph, const OpRegistry& ops, std::vector<Problem>& problems, const FoldLimits& limits) {
  std::unordered_set<std::string> reported;
  for (const Problem& problem : problems) {
    if (!problem.node.empty()) reported.insert(problem.node);
  }
  const size_t old_problems = problems.size();
  std::vector<bool> folded(graph.nodes.size(), false);
  int64_t folded_bytes = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (reported.count(node.name)) continue;
    if (is_known(ops, node) && !inputs_have_types(graph, node)) continue;
    if (!infer_one(graph, ops, node, problems)) continue;
    if (fold_shape(graph, node)) {
      folded[n] = true;
      continue;
    }
    Result<bool> done = fold_constants(graph, ops, node, limits, folded_bytes);
    if (done.ok()) {
      folded[n] = *done;
      continue;
    }
    Problem problem;
    problem.code = done.status().code();
    problem.node = node.name;
    problem.op = node.op;
    problem.opset = node.opset;
    problem.message = node.op + " '" + node.name + "': " + done.status().message();
    problems.push_back(std::move(problem));
  }
  if (problems.size() == old_problems) unfold_growth(graph, ops, folded);
  erase_nodes(graph, folded);
}

Status infer_types(Graph& graph, const OpRegistry& ops) {
  std::vector<Problem> problems;
  for (const Node& node : graph.nodes) {
    if (!infer_one(graph, ops, node, problems)) return {problems[0].code, problems[0].message, problems[0].node};
  }
  return {};
}

}  // namespace kiln
