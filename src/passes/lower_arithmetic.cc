#include "passes/lower_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "passes/match.h"

namespace kiln {
namespace {

bool is_power_of_two(float value) {
  int exponent = 0;
  return std::isnormal(value) && std::fabs(std::frexp(value, &exponent)) == 0.5f && std::isnormal(1 / value);
}

// x - c becomes x + (-c), x / 2^k becomes x * 2^-k.
bool lower_constant_operand(Rewriter& rewriter, int n) {
  const bool is_sub = rewriter.is_op(n, "Sub");
  if (!is_sub && !rewriter.is_op(n, "Div")) return false;
  const ValueId x = rewriter.input(n, 0);
  const ValueId c = rewriter.input(n, 1);
  if (!rewriter.is_constant(c) || rewriter.is_constant(x) || !is_f32(rewriter.graph(), c)) return false;
  const Value constant = rewriter.value(c);
  Tensor changed(DType::kF32, constant.shape);
  for (int64_t i = 0; i < constant.constant->num_elements(); ++i) {
    const float value = constant.constant->as<float>()[i];
    if (!is_sub && !is_power_of_two(value)) return false;
    changed.as<float>()[i] = is_sub ? -value : 1 / value;
  }
  rewriter.node(n).op = is_sub ? "Add" : "Mul";
  rewriter.set_input(n, 1, rewriter.add_constant(constant.name, std::move(changed)));
  return true;
}

bool lower_reduction(Rewriter& rewriter, int n) {
  const bool is_mean = rewriter.is_op(n, "ReduceMean");
  if (!is_mean && !rewriter.is_op(n, "ReduceMax")) return false;
  const NodeView node = rewriter.view(n);
  const Shape shape = node.input_shape(0);
  if (shape.rank != 4 || shape.num_elements() == 0 || node.input_dtype(0) != DType::kF32) return false;
  std::optional<std::vector<int64_t>> axes = ints_of(node, "axes", node.opset() < 18 ? 99 : 1);
  if (!axes || axes->size() != 2) return false;
  for (int64_t& axis : *axes) axis = axis < 0 ? axis + 4 : axis;
  std::sort(axes->begin(), axes->end());
  if (*axes != std::vector<int64_t>{2, 3}) return false;

  const bool keeps_dims = node.attr_int("keepdims", 1) != 0;
  const ValueId x = rewriter.input(n, 0);
  const ValueId out = rewriter.output(n);
  Node& pool = rewriter.node(n);
  pool.op = is_mean ? "GlobalAveragePool" : "GlobalMaxPool";
  pool.attrs.clear();
  rewriter.set_inputs(n, {x});
  if (keeps_dims) return true;
  const std::string name = rewriter.value(out).name;
  const ValueId pooled = rewriter.add_value(name + ".pooled", DType::kF32, Shape{shape[0], shape[1], 1, 1});
  rewriter.set_output(n, 0, pooled);
  const ValueId target = rewriter.add_i64_constant(name + ".shape", {shape[0], shape[1]});
  rewriter.add_node_after(n, make_node("Reshape", 13, name + ".flat", {pooled, target}, out));
  return true;
}

// Before opset 13 Softmax takes in all axes behind its own: the same thing if these are 1 long.
bool lower_softmax(Rewriter& rewriter, int n) {
  if (!rewriter.is_op(n, "Softmax") && !rewriter.is_op(n, "LogSoftmax")) return false;
  const NodeView node = rewriter.view(n);
  if (node.opset() >= 13) return false;
  const Shape& shape = node.input_shape(0);
  int axis = 0;
  if (!normalize_axis(node.attr_int("axis", 1), shape.rank, &axis) || shape.product(axis + 1, shape.rank) != 1)
    return false;
  rewriter.node(n).opset = 13;
  rewriter.node(n).attrs["axis"] = static_cast<int64_t>(axis);
  return true;
}

// Sum of two is Add, which more fuses with.
bool lower_sum(Rewriter& rewriter, int n) {
  if (!rewriter.is_op(n, "Sum") || rewriter.node(n).inputs.size() != 2) return false;
  rewriter.node(n).op = "Add";
  return true;
}

}  // namespace

Result<int> lower_arithmetic(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  const int num_nodes = rewriter.num_nodes();
  for (int n = 0; n < num_nodes; ++n) {
    if (lower_constant_operand(rewriter, n) || lower_reduction(rewriter, n) || lower_softmax(rewriter, n) ||
        lower_sum(rewriter, n)) {
      ++changes;
    }
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
