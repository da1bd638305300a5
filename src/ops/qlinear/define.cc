#include <algorithm>

#include "ops/constants.h"
#include "ops/qlinear/define_reference.h"
#include "ops/qlinear/qlinear.h"

namespace kiln::ops::qlinear {

void qlinear_conv_reference(const KernelArgs& args);
void qlinear_matmul_reference(const KernelArgs& args);
void conv_integer_reference(const KernelArgs& args);
void matmul_integer_reference(const KernelArgs& args);

namespace {

bool is_8_bit(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// One number, or one for each index of `axis`, in all batches or in each.
bool fits(const Shape& table, const Shape& data, int axis) {
  const int64_t n = table.num_elements();
  if (n == 1 || axis < 0) return n == 1;
  const int64_t of_one = axis == data.rank - 1 ? data[axis - 1] : data.product(axis + 1, data.rank);
  return n == data[axis] || n * of_one == data.num_elements();
}

bool check_table(const NodeView& node, Inference& out, int i, const Shape& data, int axis, DType dtype) {
  if (i < 0 || !node.has_input(i)) return true;
  if (node.input_dtype(i) != dtype) {
    out.invalid(strf("dtype of input %d", i).c_str(), dtype_name(node.input_dtype(i)), dtype_name(dtype));
    return false;
  }
  if (fits(node.input_shape(i), data, axis)) return true;
  out.invalid(strf("shape of input %d", i).c_str(), print_shape(node.input_shape(i)),
              "one number, or one a row or column of " + print_shape(data));
  return false;
}

bool check_quantized_inputs(const NodeView& node, const Form& form, Inference& out) {
  const std::vector<QuantizedInput> inputs = inputs_of(node.num_inputs(), form);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const QuantizedInput& input = inputs[i];
    const bool is_needed = node.has_input(input.data) && (input.scale < 0 || node.has_input(input.scale));
    if (!is_needed) {
      out.invalid("input", strf("%d or its scale (absent)", input.data), "present");
      return false;
    }
    if (input.scale < 0 && input.zero_point < 0) {  // quantised by the operator itself
      if (!out.check_dtype(input.data, {DType::kF32})) return false;
      continue;
    }
    if (!out.check_dtype(input.data, {DType::kU8, DType::kI8})) return false;
    const int axis = table_axis(node, form, i);
    const Shape& shape = node.input_shape(input.data);
    if (!check_table(node, out, input.scale, shape, axis, DType::kF32)) return false;
    if (!check_table(node, out, input.zero_point, shape, axis, node.input_dtype(input.data))) return false;
  }
  return true;
}

// The output's dtype: that of its zero point, of the first input where there is none; sums are i32 or f32.
DType output_dtype(const NodeView& node, const Form& form) {
  if (form.output.scale < 0) return form.domain[0] == 0 ? DType::kI32 : DType::kF32;
  if (!node.has_input(form.output.scale)) return DType::kF32;  // QGemm
  if (node.has_input(form.output.zero_point)) return node.input_dtype(form.output.zero_point);
  return node.input_dtype(form.inputs[0].data);
}

void infer(const NodeView& node, Inference& out) {
  const Form& form = *find_form(node.node());
  if (node.num_inputs() <= std::max(form.inputs[0].data, form.inputs[1].data)) {
    out.invalid("number of inputs", std::to_string(node.num_inputs()), "more");
    return;
  }
  if (!check_quantized_inputs(node, form, out)) return;
  const DType dtype = output_dtype(node, form);
  const bool may_be_f32 = node.node().op == "QGemm";
  const bool is_quantized = form.output.scale >= 0 && !(may_be_f32 && dtype == DType::kF32);
  if (is_quantized && (!node.has_input(form.output.scale) || !is_8_bit(dtype))) {
    out.invalid("output scale or zero point", "absent or of another dtype", "f32, and u8 or i8");
    return;
  }
  if (is_quantized) {
    const int axis = node.node().op == "QLinearMatMul" ? table_axis(node, form, 0) : -1;
    const Shape& rows = node.input_shape(form.inputs[0].data);
    if (!check_table(node, out, form.output.scale, rows, axis, DType::kF32)) return;
    if (!check_table(node, out, form.output.zero_point, rows, axis, dtype)) return;
  }
  const DType bias = dtype == DType::kF32 && node.node().op != "QGemm" ? DType::kF32 : DType::kI32;
  if (form.bias >= 0 && !out.check_dtype(form.bias, {bias})) return;
  const FloatNode as_float = float_node(node, form);
  Inference shapes = infer_node(builtin_ops(), as_float.graph, as_float.node());
  if (shapes.ok()) {
    out.set_output(0, dtype, shapes.outputs[0].shape);
    return;
  }
  for (Problem& problem : shapes.problems) {
    if (problem.code == Code::kUnsupported)
      out.unsupported(problem.attribute.c_str(), problem.value, problem.supported);
    else
      out.invalid(problem.attribute.c_str(), problem.value, problem.supported);
  }
}

ParamBytes make_params(const NodeView& node) {
  const FloatNode as_float = float_node(node, *find_form(node.node()));
  return builtin_ops().find(as_float.node())->make_params(NodeView(as_float.graph, as_float.node()));
}

Status lower(const NodeView& node, Lowering& out) {
  const Form& form = *find_form(node.node());
  const bool is_conv = std::string(form.float_op) == "Conv";
  out.kernel = is_conv ? "qlinear_conv_any" : "qlinear_matmul_any";
  out.params = make_params(node);
  out.outputs = node.node().outputs;
  const QuantizedInput& x = form.inputs[0];
  const QuantizedInput& w = form.inputs[1];
  // In the order of Slot.
  for (int i : {x.data, w.data, x.zero_point, w.zero_point, x.scale, w.scale, form.output.scale, form.output.zero_point,
                form.bias}) {
    out.inputs.push_back({i >= 0 && node.has_input(i) ? node.node().inputs[size_t(i)] : kNoValue, nullptr});
  }
  const Shape& weights = node.input_shape(w.data);
  const Shape& y = node.output(0).shape;
  const int64_t sums = y.num_elements();
  const int64_t inner = is_conv ? weights.product(1, weights.rank) : weights[weights.rank > 1 ? weights.rank - 2 : 0];
  out.macs = sums * inner;
  return {};
}

constexpr OpDef product(const char* op, int min_opset, const char* summary, KernelFn reference) {
  return {op, "", min_opset, summary, infer, make_params, reference, nullptr, lower};
}

template <int kIndex>
void reference(const KernelArgs& args) {
  run_by_float(args, kForms[kIndex]);
}

// Has no kernel: it becomes other operators before anything runs.
template <int kIndex>
constexpr OpDef expanded(const char* summary) {
  return {kForms[kIndex].op, kMicrosoft, 1, summary, infer, params_by_float, reference<kIndex>, nullptr, nullptr};
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      product("QLinearConv", 10,
              "Conv of u8 or i8 in any combination, scales for tensors or a filter, i32 bias; exact sums, rounded once",
              qlinear_conv_reference),
      product("QLinearMatMul", 10,
              "MatMul of u8 or i8 in any combination, scales for tensors, rows or columns; exact sums, rounded once",
              qlinear_matmul_reference),
      product("ConvInteger", 10, "Conv of u8 or i8 in any combination to i32; zero points for tensors or a filter",
              conv_integer_reference),
      product("MatMulInteger", 10,
              "MatMul of u8 or i8 in any combination to i32; zero points for tensors, rows or columns",
              matmul_integer_reference),
      expanded<form_index("QGemm")>("Gemm of u8 or i8 to 8 bits or f32, by the float operator"),
      expanded<form_index("MatMulIntegerToFloat")>("MatMul of u8 or i8 to f32, by the float operator"),
      expanded<form_index("DynamicQuantizeMatMul")>(
          "MatMul of f32, quantised by its range, and u8 or i8, by the float operator"),
      expanded<form_index("QLinearAdd")>("Add of u8 or i8, by the float operator"),
      expanded<form_index("QLinearMul")>("Mul of u8 or i8, by the float operator"),
      expanded<form_index("QLinearSigmoid")>("Sigmoid of u8 or i8, by the float operator"),
      expanded<form_index("QLinearLeakyRelu")>("LeakyRelu of u8 or i8, by the float operator"),
      expanded<form_index("QLinearSoftmax")>("Softmax of u8 or i8, by the float operator; opset"),
      expanded<form_index("QLinearAveragePool")>("AveragePool of u8 or i8, by the float operator; channels_last"),
      expanded<form_index("QLinearGlobalAveragePool")>(
          "GlobalAveragePool of u8 or i8, by the float operator; channels_last"),
      expanded<form_index("QLinearConcat")>("Concat of u8 or i8 with a scale each, by the float operator"),
  };
  return kDefs;
}

}  // namespace kiln::ops::qlinear
