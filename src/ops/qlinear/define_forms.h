// Compile side: where the quantised operators have their operands, and which float operator each one is.
#pragma once

#include <string_view>
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

constexpr const char* kMicrosoft = "com.microsoft";
constexpr QuantizedInput kNone = {};

inline constexpr Form kForms[] = {
    {"QLinearConv", "", "Conv", {{0, 1, 2}, {3, 4, 5}}, {-1, 6, 7}, 8},
    {"QLinearMatMul", "", "MatMul", {{0, 1, 2}, {3, 4, 5}}, {-1, 6, 7}},
    {"ConvInteger", "", "Conv", {{0, -1, 2}, {1, -1, 3}}, kNone},
    {"MatMulInteger", "", "MatMul", {{0, -1, 2}, {1, -1, 3}}, kNone},
    {"QGemm", kMicrosoft, "Gemm", {{0, 1, 2}, {3, 4, 5}}, {-1, 7, 8}, 6},
    {"MatMulIntegerToFloat", kMicrosoft, "MatMul", {{0, 2, 4}, {1, 3, 5}}, kNone, 6},
    {"DynamicQuantizeMatMul", kMicrosoft, "MatMul", {{0, -1, -1}, {1, 2, 3}}, kNone, 4},
    {"QLinearAdd", kMicrosoft, "Add", {{0, 1, 2}, {3, 4, 5}}, {-1, 6, 7}},
    {"QLinearMul", kMicrosoft, "Mul", {{0, 1, 2}, {3, 4, 5}}, {-1, 6, 7}},
    {"QLinearSigmoid", kMicrosoft, "Sigmoid", {{0, 1, 2}, kNone}, {-1, 3, 4}},
    {"QLinearLeakyRelu", kMicrosoft, "LeakyRelu", {{0, 1, 2}, kNone}, {-1, 3, 4}},
    {"QLinearSoftmax", kMicrosoft, "Softmax", {{0, 1, 2}, kNone}, {-1, 3, 4}},
    {"QLinearAveragePool", kMicrosoft, "AveragePool", {{0, 1, 2}, kNone}, {-1, 3, 4}},
    {"QLinearGlobalAveragePool", kMicrosoft, "GlobalAveragePool", {{0, 1, 2}, kNone}, {-1, 3, 4}},
    {"QLinearConcat", kMicrosoft, "Concat", {{2, 3, 4}, kNone}, {-1, 0, 1}},
};

// Which of kForms it is.
constexpr int form_index(std::string_view op) {
  int i = 0;
  while (kForms[i].op != op) ++i;
  return i;
}

// Null for an operator that is not quantised.
const Form* find_form(const Node& node);

// The quantised inputs of a node that has so many inputs.
std::vector<QuantizedInput> inputs_of(int num_inputs, const Form& form);

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
