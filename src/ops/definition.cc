#include "ops/definition.h"

namespace kiln {

#define KILN_OP(folder)                 \
  namespace ops::folder {               \
  std::span<const OpDef> definitions(); \
  }
#include "ops/ops.def"
#undef KILN_OP

namespace {

std::string full_op_name(const Node& node) { return node.domain.empty() ? node.op : node.domain + "." + node.op; }

std::string describe_node(const Node& node) {
  return node.name.empty() ? full_op_name(node) : full_op_name(node) + " '" + node.name + "'";
}

}  // namespace

void Inference::add(Code code, const char* attribute, const std::string& value, const std::string& supported) {
  Problem problem;
  problem.code = code;
  problem.node = view_.node().name;
  problem.op = full_op_name(view_.node());
  problem.opset = view_.opset();
  problem.attribute = attribute;
  problem.value = value;
  problem.supported = supported;
  problem.message = describe_node(view_.node()) + strf(" (opset %d): ", view_.opset()) + attribute +
                    (value.empty() ? "" : "=" + value) +
                    (code == Code::kInvalidModel ? "; required: " : " is not supported; supported: ") + supported;
  problems.push_back(std::move(problem));
}

void Inference::unsupported(const char* attribute, const std::string& value, const std::string& supported) {
  add(Code::kUnsupported, attribute, value, supported);
}

void Inference::invalid(const char* attribute, const std::string& value, const std::string& required) {
  add(Code::kInvalidModel, attribute, value, required);
}

bool Inference::check_inputs(int min_inputs, int max_inputs) {
  const int count = view_.num_inputs();
  if (count < min_inputs || count > max_inputs) {
    invalid("number of inputs", std::to_string(count),
            min_inputs == max_inputs ? std::to_string(min_inputs) : strf("%d to %d", min_inputs, max_inputs));
    return false;
  }
  for (int i = 0; i < min_inputs; ++i) {
    if (!view_.has_input(i)) {
      invalid("input", std::to_string(i) + " (absent)", "present");
      return false;
    }
  }
  return true;
}

bool Inference::check_dtype(int i, std::initializer_list<DType> allowed) {
  if (!view_.has_input(i)) return true;
  std::string names;
  for (DType dtype : allowed) {
    if (dtype == view_.input_dtype(i)) return true;
    names += (names.empty() ? "" : ", ") + std::string(dtype_name(dtype));
  }
  unsupported(strf("dtype of input '%s'", view_.input(i).name.c_str()).c_str(), dtype_name(view_.input_dtype(i)),
              names);
  return false;
}

const Tensor* Inference::need_constant(int i, const char* input_name) {
  const Tensor* tensor = view_.constant(i);
  if (tensor == nullptr) {
    unsupported(input_name, view_.has_input(i) ? "computed at run time from '" + view_.input(i).name + "'" : "absent",
                "a constant, or a value that follows from constants and shapes (fix free dims with --input-shape, "
                "bind an input with --bind)");
  }
  return tensor;
}

void OpRegistry::add(std::span<const OpDef> table) { tables_.push_back(table); }

const OpDef* OpRegistry::find(const std::string& op, const std::string& domain) const {
  const std::string& normal = domain == "ai.onnx" ? std::string() : domain;
  for (auto table = tables_.rbegin(); table != tables_.rend(); ++table) {
    for (const OpDef& def : *table) {
      if (op == def.op && normal == def.domain) return &def;
    }
  }
  return nullptr;
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> defs;
  for (const auto& table : tables_) {
    for (const OpDef& def : table) defs.push_back(&def);
  }
  return defs;
}

const OpRegistry& builtin_ops() {
  static const OpRegistry registry = [] {
    OpRegistry all;
#define KILN_OP(folder) all.add(ops::folder::definitions());
#include "ops/ops.def"
#undef KILN_OP
    return all;
  }();
  return registry;
}

Inference infer_node(const OpRegistry& ops, const Graph& graph, const Node& node) {
  const NodeView view(graph, node);
  Inference out(view);
  const OpDef* def = ops.find(node);
  if (def == nullptr) {
    Problem problem;
    problem.code = Code::kUnknownOperator;
    problem.node = node.name;
    problem.op = full_op_name(node);
    problem.opset = node.opset;
    problem.message = describe_node(node) + strf(" (opset %d): unknown operator", node.opset);
    out.problems.push_back(std::move(problem));
    return out;
  }
  if (node.opset < def->min_opset) {
    out.unsupported("opset", std::to_string(node.opset), strf("%d and newer", def->min_opset));
    return out;
  }
  def->infer(view, out);
  return out;
}

Result<std::vector<Tensor>> evaluate_node(const OpRegistry& ops, const Graph& graph, const Node& node,
                                          std::span<const Tensor* const> inputs) {
  const OpDef* def = ops.find(node);
  if (def == nullptr || def->reference == nullptr) {
    return Status(Code::kInternal, "operator " + full_op_name(node) + " has no reference kernel", node.name);
  }
  std::vector<TensorRef> in;
  for (const Tensor* tensor : inputs) in.push_back(tensor ? make_ref(*tensor) : TensorRef{});
  std::vector<Tensor> results;
  std::vector<TensorRef> out;
  results.reserve(node.outputs.size());
  for (ValueId id : node.outputs) {
    if (id == kNoValue) {
      results.emplace_back();
      out.push_back({});
      continue;
    }
    const Value& value = graph.value(id);
    results.emplace_back(value.dtype, value.shape);
    if (results.back().data() == nullptr) return Status(Code::kOutOfMemory, "no memory for " + value.name, node.name);
    out.push_back(make_ref(results.back()));
  }
  const ParamBytes params = def->make_params ? def->make_params(NodeView(graph, node)) : ParamBytes{};
  KernelArgs args;
  args.params = params.data();
  args.params_bytes = params.size();
  args.in = in.data();
  args.num_in = static_cast<int>(in.size());
  args.out = out.data();
  args.num_out = static_cast<int>(out.size());
  args.parallel = &serial_parallel();
  def->reference(args);
  return results;
}

Result<std::vector<Tensor>> evaluate_graph(const OpRegistry& ops, const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs.size()) return Status(Code::kInvalidArgument, "wrong number of graph inputs");
  std::vector<Tensor> computed(graph.values.size());
  std::vector<const Tensor*> values(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) values[i] = graph.values[i].constant.get();
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(graph.inputs[i])] = &inputs[i];
  for (const Node& node : graph.nodes) {
    std::vector<const Tensor*> in;
    for (ValueId id : node.inputs) in.push_back(id == kNoValue ? nullptr : values[static_cast<size_t>(id)]);
    KILN_ASSIGN(std::vector<Tensor> out, evaluate_node(ops, graph, node, in));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const auto id = static_cast<size_t>(node.outputs[i]);
      computed[id] = std::move(out[i]);
      values[id] = &computed[id];
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(*values[static_cast<size_t>(id)]);
  return outputs;
}

Status lower_node(const OpRegistry& ops, const Graph& graph, const Node& node, Lowering& out) {
  const OpDef* def = ops.find(node);
  if (def == nullptr) return {Code::kUnknownOperator, full_op_name(node) + " is unknown", node.name};
  const NodeView view(graph, node);
  if (def->lower != nullptr) return def->lower(view, out);
  if (def->kernel == nullptr) {
    return {Code::kUnsupported, describe_node(node) + " has no runtime kernel: it must fold at compile time",
            node.name};
  }
  out.kernel = def->kernel;
  out.params = def->make_params ? def->make_params(view) : ParamBytes{};
  for (ValueId id : node.inputs) out.inputs.push_back({id, nullptr});
  out.outputs = node.outputs;
  return {};
}

}  // namespace kiln
