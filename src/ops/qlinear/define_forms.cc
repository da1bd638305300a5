#include "ops/qlinear/define_forms.h"

#include <algorithm>

namespace kiln::ops::qlinear {

const Form* find_form(const Node& node) {
  for (const Form& form : kForms) {
    if (node.op == form.op && node.domain == form.domain) return &form;
  }
  return nullptr;
}

std::vector<QuantizedInput> inputs_of(int num_inputs, const Form& form) {
  std::vector<QuantizedInput> inputs;
  const QuantizedInput& first = form.inputs[0];
  if (std::string_view(form.float_op) == "Concat") {
    for (int i = 0; first.data + i < num_inputs; i += 3) {
      inputs.push_back({first.data + i, first.scale + i, first.zero_point + i});
    }
    return inputs;
  }
  for (const QuantizedInput& input : form.inputs) {
    if (input.data >= 0) inputs.push_back(input);
  }
  return inputs;
}

Node make_float_op(const Node& node, const Form& form) {
  // Attributes that the float operator has not, and the opset in which the others mean what they say.
  constexpr int64_t kOpset = 13;
  Node made;
  made.op = form.float_op;
  made.opset = static_cast<int>(kOpset);
  made.name = node.name;
  made.attrs = node.attrs;
  if (node.op == "QLinearSoftmax") made.opset = static_cast<int>(std::max<int64_t>(attr_int(node, "opset", kOpset), 1));
  if (attr_int(node, "channels_last", 0) != 0) made.attrs["layout"] = std::string("NHWC");
  made.attrs.erase("channels_last");
  made.attrs.erase("opset");
  return made;
}

FloatNode float_node(const NodeView& node, const Form& form) {
  FloatNode made;
  Node op = make_float_op(node.node(), form);
  const auto add = [&](int i) {
    const std::string name = "input" + std::to_string(i);
    op.inputs.push_back(made.graph.add_value(name, DType::kF32, node.input_shape(i)));
  };
  for (const QuantizedInput& input : inputs_of(node.num_inputs(), form)) add(input.data);
  if (form.bias >= 0 && node.has_input(form.bias)) add(form.bias);
  op.outputs.push_back(made.graph.add_value("output"));
  made.graph.nodes.push_back(std::move(op));
  return made;
}

int table_axis(const NodeView& node, const Form& form, size_t i) {
  const std::string op = form.float_op;
  if (op == "Conv") return i == 0 ? -1 : 0;
  if (op == "Gemm") return i == 0 ? -1 : (node.attr_int("transB", 0) != 0 ? 0 : 1);
  if (op != "MatMul") return -1;
  const int rank = node.input_shape(form.inputs[i].data).rank;
  if (rank < 2) return -1;
  return i == 0 ? rank - 2 : rank - 1;
}

}  // namespace kiln::ops::qlinear
