// Compile side: where the quantised operators have their operands, and which float operator each one is.
#pragma once

#include <vector>

#include "ops/definition.h"

namespace kiln::ops::qlinear {

// Indices of inputs; -1 for what the operator does not have.
struct QuantizedInput {
  int data = -1;
  int scale = -1;
  int zero_point = -1;
};

struct Form {
  const char* op;
  const char* domain;
  const char* float_op;
  QuantizedInput inputs[2];  // QLinearConcat: the first of them, three inputs each
  QuantizedInput output;     // its scale and zero point; no data
  int bias = -1;             // i32 in units of the inputs' scales (f32 where the output is f32)
};

// Null for an operator that is not quantised.
const Form* find_form(const Node& node);

// The quantised inputs that the node has.
std::vector<QuantizedInput> inputs_of(const NodeView& node, const Form& form);

// Its float operator alone, f32 inputs of the same shapes: for shapes and parameters.
struct FloatNode {
  Graph graph;
  const Node& node() const { return graph.nodes[0]; }
};
FloatNode float_node(const NodeView& node, const Form& form);

// The float operator with the node's attributes.
Node make_float_op(const Node& node, const Form& form);

// The axis of quantised input `i` that a scale or zero point of more than one element belongs to: rows of a
// product's first factor, columns of its second, filters; -1 where there may be one element only.
int table_axis(const NodeView& node, const Form& form, size_t i);

}  // namespace kiln::ops::qlinear
