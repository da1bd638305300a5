// A graph being rewritten: who makes and who reads each value stays known while nodes come and go.
//
// Node numbers stay valid until finish(): removed nodes are only marked, new ones are appended and get their
// place at the end. References to nodes do not survive add_node.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/definition.h"

namespace kiln {

class Rewriter {
 public:
  Rewriter(Graph& graph, const OpRegistry& ops);

  Graph& graph() { return graph_; }
  const OpRegistry& ops() const { return ops_; }
  int num_nodes() const { return static_cast<int>(graph_.nodes.size()); }
  Node& node(int n) { return graph_.nodes[static_cast<size_t>(n)]; }
  bool is_dead(int n) const { return dead_[static_cast<size_t>(n)]; }
  Value& value(ValueId id) { return graph_.value(id); }
  bool is_constant(ValueId id) const { return graph_.is_constant(id); }
  NodeView view(int n) { return NodeView(graph_, node(n)); }

  // The node is alive and is this operator of ONNX's domain (of `domain`).
  bool is_op(int n, const char* op, const char* domain = "");
  // Input or output i, kNoValue if absent.
  ValueId input(int n, size_t i);
  ValueId output(int n, size_t i = 0);

  int producer(ValueId id) const { return producer_[static_cast<size_t>(id)]; }  // -1: graph input, constant
  const std::vector<int>& consumers(ValueId id) const {
    return consumers_[static_cast<size_t>(id)];
  }  // one entry a use
  bool is_output(ValueId id) const { return is_output_[static_cast<size_t>(id)]; }
  bool is_input(ValueId id) const { return producer(id) < 0 && !is_constant(id); }
  // One node reads the value, once, and it is no graph output.
  bool has_one_use(ValueId id) const { return consumers(id).size() == 1 && !is_output(id); }
  // The node that makes the value if it is this operator and nothing else reads the value; else -1.
  int sole_producer(ValueId id, const char* op, const char* domain = "");
  // The only node that reads the value if it is this operator; else -1.
  int sole_consumer(ValueId id, const char* op, const char* domain = "");

  void set_input(int n, size_t i, ValueId id);
  void set_inputs(int n, std::vector<ValueId> ids);
  // The node now makes `id` as its output i; what it made before has no producer any more.
  void set_output(int n, size_t i, ValueId id);
  // Nodes that read `from` read `to`. Graph outputs stay.
  void replace_uses(ValueId from, ValueId to);
  // `n` makes of its input i nothing but a copy of it: takes n out, keeping the names of graph outputs. False
  // if it must stay because a graph input, a constant or another graph output would become a graph output.
  bool bypass(int n, size_t i = 0);

  // Adds a node near `anchor` (where the order of nodes leaves a choice).
  int add_node_before(int anchor, Node node) { return add(anchor, std::move(node), -1); }
  int add_node_after(int anchor, Node node) { return add(anchor, std::move(node), 1); }
  void remove(int n);

  // Names get a number if they are taken.
  ValueId add_value(const std::string& name, DType dtype = DType::kInvalid, const Shape& shape = {});
  ValueId add_constant(const std::string& name, Tensor tensor);
  ValueId add_i64_constant(const std::string& name, const std::vector<int64_t>& values);

  // Sets the types of the node's outputs.
  Status infer(int n);

  // Drops removed nodes and values that nothing mentions, sorts. The Rewriter must not be used after.
  Status finish();

 private:
  int add(int anchor, Node node, int64_t shift);
  std::string unique_name(const std::string& name);
  void drop_use(ValueId id, int n);
  void add_use(ValueId id, int n);

  Graph& graph_;
  const OpRegistry& ops_;
  std::vector<int> producer_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> is_output_;
  std::vector<bool> dead_;
  std::vector<int64_t> order_;                  // of nodes; equal ones in the order of their numbers
  std::unordered_map<std::string, int> names_;  // taken -> next number to try
};

}  // namespace kiln
