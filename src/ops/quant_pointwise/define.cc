#include <algorithm>
#include <cmath>

#include "ops/activation.h"
#include "ops/definition.h"
#include "ops/quant_pointwise/quant_pointwise.h"

namespace kiln::ops::quant_pointwise {

// reference.cc
void run_table_reference(const KernelArgs& args);
void run_binary_reference(const KernelArgs& args);

namespace {

void infer_table(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2) || !out.check_dtype(0, {DType::kU8, DType::kI8}) ||
      !out.check_dtype(1, {DType::kU8, DType::kI8})) {
    return;
  }
  const Tensor* table = out.need_constant(1, "table");
  if (table == nullptr) return;
  if (table->num_elements() != 256) {
    out.invalid("table", print_shape(table->shape()), "256 entries");
    return;
  }
  out.set_output(0, table->dtype(), node.input_shape(0));
}

ParamBytes no_params(const NodeView&) { return {}; }

Status lower_table(const NodeView& node, Lowering& out) {
  out.kernel = "quant_table";
  out.inputs = {{node.node().inputs[0], nullptr}, {node.node().inputs[1], nullptr}};
  out.outputs = node.node().outputs;
  return {};
}

bool check_operand(const NodeView& node, const std::string& name, DType dtype, Inference& out) {
  const float scale = node.attr_float((name + "_scale").c_str(), 0);
  if (!(scale > 0) || !std::isfinite(scale)) {
    out.invalid((name + "_scale").c_str(), std::to_string(scale), "a finite number above 0");
    return false;
  }
  const int64_t zero = node.attr_int((name + "_zero").c_str(), 0);
  const int64_t lowest = dtype == DType::kI8 ? -128 : 0;
  if (zero >= lowest && zero <= lowest + 255) return true;
  out.invalid((name + "_zero").c_str(), std::to_string(zero), strf("%d to %d", int(lowest), int(lowest + 255)));
  return false;
}

void infer_binary(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2) || !out.check_dtype(0, {DType::kU8, DType::kI8}) ||
      !out.check_dtype(1, {DType::kU8, DType::kI8})) {
    return;
  }
  const std::string function = node.attr_string("function", "");
  if (function != "Add" && function != "Mul") {
    out.invalid("function", function, "Add or Mul");
    return;
  }
  const DType y = parse_dtype(node.attr_string("y_dtype", "u8").c_str());
  if (y != DType::kU8 && y != DType::kI8) {
    out.invalid("y_dtype", node.attr_string("y_dtype", ""), "u8 or i8");
    return;
  }
  if (!check_operand(node, "a", node.input_dtype(0), out) || !check_operand(node, "b", node.input_dtype(1), out) ||
      !check_operand(node, "y", y, out)) {
    return;
  }
  const Activation activation = read_activation(node.node());
  if (activation.kind > static_cast<int32_t>(ActivationKind::kClip)) {
    out.unsupported("activation", node.attr_string("activation", ""), "Clip");
    return;
  }
  Shape shape;
  if (!broadcast_shapes(node.input_shape(0), node.input_shape(1), &shape)) {
    out.invalid("shapes", print_shape(node.input_shape(0)) + " and " + print_shape(node.input_shape(1)),
                "ones that broadcast");
    return;
  }
  out.set_output(0, y, shape);
}

ParamBytes binary_params(const NodeView& node) {
  QuantBinaryParams p;
  const bool is_mul = node.attr_string("function", "") == "Mul";
  p.function = static_cast<int32_t>(is_mul ? QuantFunction::kMul : QuantFunction::kAdd);
  const auto scale = [&](const char* name) { return static_cast<double>(node.attr_float(name, 1)); };
  p.a_zero = static_cast<int32_t>(node.attr_int("a_zero", 0));
  p.b_zero = static_cast<int32_t>(node.attr_int("b_zero", 0));
  p.y_zero = static_cast<int32_t>(node.attr_int("y_zero", 0));
  const double y = scale("y_scale");
  p.a_multiplier = static_cast<float>(scale("a_scale") * (is_mul ? scale("b_scale") : 1) / y);
  p.b_multiplier = static_cast<float>(scale("b_scale") / y);
  const int32_t lowest = node.attr_string("y_dtype", "u8") == "i8" ? -128 : 0;
  const auto low = static_cast<float>(lowest - p.y_zero);
  const float high = low + 255;
  p.low = low;
  p.high = high;
  const Activation activation = read_activation(node.node());
  if (activation.kind != 0) {
    p.low = std::clamp(std::nearbyintf(activation.a / static_cast<float>(y)), low, high);
    p.high = std::clamp(std::nearbyintf(activation.b / static_cast<float>(y)), p.low, high);
  }
  return pack_params(p);
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"QuantTable", "kiln", 1, "a function of 8-bit numbers as a table of 256; made by passes", infer_table, no_params,
       run_table_reference, nullptr, lower_table},
      {"QuantBinary", "kiln", 1, "Add or Mul of 8-bit numbers with rescaling; made by passes", infer_binary,
       binary_params, run_binary_reference, "quant_binary", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::quant_pointwise
