// What an operator is to the compiler: its forms, shape rule, parameters, reference kernel and lowering.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"

namespace kiln {

// One thing that is wrong with a model. The checker collects them all.
struct Problem {
  Code code = Code::kUnsupported;  // kUnknownOperator, kUnsupported or kInvalidModel
  std::string node;                // node name, or "#12" for the 12th node if it has none
  std::string op;                  // "Conv" or "com.microsoft.Gelu"
  int opset = 0;
  std::string attribute;  // attribute or input that is at fault; may be empty
  std::string value;      // what the model says
  std::string supported;  // what tilekiln takes
  std::string message;    // the sentence in full: "Conv 'stem/conv1': group=3 does not divide channels=64"
};

struct TensorType {
  DType dtype = DType::kInvalid;
  Shape shape;
};

// A node with its inputs' types and constants, as shape rules, parameters and lowering see it.
class NodeView {
 public:
  NodeView(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Node& node() const { return node_; }
  const Graph& graph() const { return graph_; }
  int opset() const { return node_.opset; }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  int num_outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int i) const { return i < num_inputs() && node_.inputs[size_t(i)] != kNoValue; }
  bool has_output(int i) const { return i < num_outputs() && node_.outputs[size_t(i)] != kNoValue; }
  const Value& input(int i) const { return graph_.value(node_.inputs[size_t(i)]); }
  DType input_dtype(int i) const { return input(i).dtype; }
  const Shape& input_shape(int i) const { return input(i).shape; }
  // The constant behind input i, or null if it is absent or computed at run time.
  const Tensor* constant(int i) const { return has_input(i) ? input(i).constant.get() : nullptr; }
  const Value& output(int i) const { return graph_.value(node_.outputs[size_t(i)]); }

  int64_t attr_int(const char* name, int64_t fallback) const { return kiln::attr_int(node_, name, fallback); }
  float attr_float(const char* name, float fallback) const { return kiln::attr_float(node_, name, fallback); }
  std::string attr_string(const char* name, const char* fallback) const {
    return kiln::attr_string(node_, name, fallback);
  }
  std::vector<int64_t> attr_ints(const char* name) const { return kiln::attr_ints(node_, name); }
  bool has_attr(const char* name) const { return kiln::has_attr(node_, name); }
  // `layout` = "NHWC" is set by the layout pass on spatial operators.
  bool is_nhwc() const { return attr_string("layout", "NCHW") == "NHWC"; }

 private:
  const Graph& graph_;
  const Node& node_;
};

// Collects what a shape rule finds: output types, or problems.
class Inference {
 public:
  explicit Inference(const NodeView& view) : view_(view), outputs(view.node().outputs.size()) {}

  // The type of output i. Rules call it for every output that is present.
  void set_output(int i, DType dtype, const Shape& shape) {
    if (static_cast<size_t>(i) < outputs.size()) outputs[size_t(i)] = {dtype, shape};
  }
  // A form that ONNX has but tilekiln has not: unsupported("auto_pad", "SAME_LOWER", "NOTSET, SAME_UPPER, VALID").
  void unsupported(const char* attribute, const std::string& value, const std::string& supported);
  // The model contradicts ONNX: invalid("group", "3", "a divisor of channels=64").
  void invalid(const char* attribute, const std::string& value, const std::string& required);
  // True if inputs [min, max] are there and the required ones present; reports otherwise.
  bool check_inputs(int min_inputs, int max_inputs);
  // Input i, if present, must have one of these dtypes.
  bool check_dtype(int i, std::initializer_list<DType> allowed);
  // Input i must be a constant by now (axes, shapes, weights); reports what to do otherwise.
  const Tensor* need_constant(int i, const char* input_name);

  bool ok() const { return problems.empty(); }

 private:
  const NodeView& view_;
  void add(Code code, const char* attribute, const std::string& value, const std::string& supported);

 public:
  std::vector<TensorType> outputs;
  std::vector<Problem> problems;
};

// Parameters are PODs, so that the bundle can carry them as bytes.
using ParamBytes = std::vector<uint8_t>;
template <typename P>
ParamBytes pack_params(const P& params) {
  ParamBytes bytes(sizeof(P));
  std::memcpy(bytes.data(), &params, sizeof(P));
  return bytes;
}

// An operand of a step: a value of the graph, or a constant made by lowering (packed weights), or absent.
struct Operand {
  ValueId value = kNoValue;
  TensorPtr packed;
};

// What lowering makes of a node: one step.
struct Lowering {
  std::string kernel;
  ParamBytes params;
  std::vector<Operand> inputs;
  std::vector<ValueId> outputs;
  size_t scratch_bytes = 0;
  int64_t macs = 0;  // multiply-accumulates; 0 for operators that are not counted in them
};

struct OpDef {
  const char* op;
  const char* domain;   // "" for ONNX
  int min_opset;        // first opset whose form is taken
  const char* summary;  // for docs/operators.md: formula, supported attributes and dtypes

  // Checks the form and gives the output types. Inputs' types are valid; constants may be looked at.
  void (*infer)(const NodeView& node, Inference& out);

  // The parameters of the reference kernel (and of the default lowering). Types of outputs are known.
  ParamBytes (*make_params)(const NodeView& node);

  // Plain loops, wide accumulators, operands in ONNX order, dense. Also what constant folding runs.
  KernelFn reference;

  // The kernel for the default lowering (operands as they are, params by make_params), or null if `lower` is set.
  const char* kernel;

  // Chooses kernel and packing; null for the default.
  Status (*lower)(const NodeView& node, Lowering& out);

  // Output is a function of elements at the same place only (with broadcasting): layout passes may move across it.
  bool pointwise = false;
};

class OpRegistry {
 public:
  void add(std::span<const OpDef> table);
  // The definition for a node, or null if the operator is unknown. A node older than min_opset also gives null.
  const OpDef* find(const std::string& op, const std::string& domain) const;
  const OpDef* find(const Node& node) const { return find(node.op, node.domain); }
  std::vector<const OpDef*> all() const;

 private:
  std::vector<std::span<const OpDef>> tables_;
};

// Every folder of ops.def.
const OpRegistry& builtin_ops();

// Infers one node's output types; the checker, passes and tests all go through here.
Inference infer_node(const OpRegistry& ops, const Graph& graph, const Node& node);

// Runs the reference kernel on dense tensors (nulls for absent inputs); output types must be inferred already.
Result<std::vector<Tensor>> evaluate_node(const OpRegistry& ops, const Graph& graph, const Node& node,
                                          std::span<const Tensor* const> inputs);

// Runs a whole inferred graph with reference kernels: the oracle for passes and kernels. Outputs in graph order.
Result<std::vector<Tensor>> evaluate_graph(const OpRegistry& ops, const Graph& graph, std::span<const Tensor> inputs);

// Lowers one node: OpDef::lower, or the default.
Status lower_node(const OpRegistry& ops, const Graph& graph, const Node& node, Lowering& out);

}  // namespace kiln
