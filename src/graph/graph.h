// The compiler's IR: a graph of nodes (operators) over values (tensors), in topological order.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/shape.h"
#include "base/status.h"
#include "base/tensor.h"

namespace kiln {

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;  // an optional input or output that is absent

using Attr = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                          std::vector<std::string>, TensorPtr>;

// What a float constant was made of: constant = (values - zero_point) * scale, along `axis` where scale is no scalar.
struct QuantizedConstant {
  TensorPtr values;      // i8 or u8, of the constant's shape
  TensorPtr scale;       // f32, one or one a slice of `axis`
  TensorPtr zero_point;  // of values' dtype and scale's shape; null for 0
  int axis = 0;
};

// A tensor in the graph: a graph input, a constant, or what a node produces.
struct Value {
  std::string name;
  DType dtype = DType::kInvalid;  // kInvalid until inferred
  Shape shape;                    // meaningful once dtype is valid; dims may be unknown before inference
  TensorPtr constant;             // set for initialisers and folded values
  // Set where `constant` was folded from a DequantizeLinear: kernels may take the integers themselves.
  std::shared_ptr<const QuantizedConstant> quantized;
};

// One operator. `domain` is "" for ONNX's own and "kiln" for operators that only passes make.
// Spatial operators (Conv, pools, …) take `layout` = "NHWC" as a string attribute after the layout pass; weights stay
// in ONNX order (OIHW) in the graph and are packed by lowering.
struct Node {
  std::string op;
  std::string domain;
  int opset = 0;  // version of `domain` that the model imports
  std::string name;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attr> attrs;
};

struct QuantJob;

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // every node comes after the producers of its inputs
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, std::string> metadata;  // ONNX metadata_props, plus what the compiler adds
  std::shared_ptr<QuantJob> quant;  // what to quantise and observe (quant/quant_job.h); null: nothing
  bool keeps_real_quantisation = false;  // DequantizeLinear -> operator -> QuantizeLinear stay as ONNX says them
  double prepared_budget = 1;  // weights that kernels transform at load may take so many times the constants' bytes

  ValueId add_value(std::string value_name, DType dtype = DType::kInvalid, const Shape& shape = {});
  ValueId add_constant(std::string value_name, Tensor tensor);
  // A name that no value has yet: `base`, or `base` with a number behind it.
  std::string unique_name(const std::string& base) const;
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  bool is_constant(ValueId id) const { return id != kNoValue && value(id).constant != nullptr; }
};

// Who makes and who reads each value; a snapshot that passes rebuild after they change the graph.
struct Uses {
  std::vector<int> producer;                // index into nodes, or -1 (graph input, constant)
  std::vector<std::vector<int>> consumers;  // indices into nodes, one entry for each use
  std::vector<bool> is_output;              // the value is a graph output
};
Uses compute_uses(const Graph& graph);

// Replaces every use of `from` (also as a graph output) by `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);

// Removes the nodes whose flag is set, keeping the order of the rest.
void erase_nodes(Graph& graph, const std::vector<bool>& dead);

// Drops values that nothing mentions and renumbers the rest.
void compact_values(Graph& graph);

// Sorts nodes topologically (stable); an error names a node on a cycle or a value that nothing produces.
Status sort_nodes(Graph& graph);

// Structural invariants: ids in range, one producer a value, topological order, unique value names, static shapes if
// `inferred`. Run between passes.
Status verify_graph(const Graph& graph, bool inferred);

// Attribute access with defaults; a wrong kind counts as absent here (the checker reports it).
int64_t attr_int(const Node& node, const char* name, int64_t fallback);
float attr_float(const Node& node, const char* name, float fallback);
std::string attr_string(const Node& node, const char* name, const char* fallback);
std::vector<int64_t> attr_ints(const Node& node, const char* name);
std::vector<float> attr_floats(const Node& node, const char* name);
TensorPtr attr_tensor(const Node& node, const char* name);
bool has_attr(const Node& node, const char* name);

}  // namespace kiln
