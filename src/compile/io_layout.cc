#include "compile/io_layout.h"

namespace kiln {
namespace {

const std::vector<int64_t> kToNhwc = {0, 2, 3, 1};
const std::vector<int64_t> kToNchw = {0, 3, 1, 2};

bool may_be_channels(int64_t dim) { return dim == 1 || dim == 3 || dim == 4; }

Shape permute(const Shape& shape, const std::vector<int64_t>& perm) {
  Shape out;
  for (const int64_t axis : perm) out.push_back(shape[static_cast<int>(axis)]);
  return out;
}

Node make_transpose(const Graph& graph, const std::string& name, ValueId from, ValueId to,
                    const std::vector<int64_t>& perm) {
  Node node;
  node.op = "Transpose";
  node.opset = 13;
  for (const Node& other : graph.nodes) {
    if (other.domain.empty()) node.opset = other.opset;
  }
  node.name = name;
  node.inputs = {from};
  node.outputs = {to};
  node.attrs["perm"] = perm;
  return node;
}

// The value takes another name; the returned one has its old name, its dtype and the permuted shape.
ValueId split_value(Graph& graph, ValueId id, const std::string& suffix, const std::vector<int64_t>& perm) {
  const std::string name = graph.value(id).name;
  graph.value(id).name = graph.unique_name(name + suffix);
  return graph.add_value(name, graph.value(id).dtype, permute(graph.value(id).shape, perm));
}

void transpose_input(Graph& graph, size_t index, bool to_nhwc) {
  const ValueId inner = graph.inputs[index];
  const ValueId outer = split_value(graph, inner, to_nhwc ? ".nchw" : ".nhwc", to_nhwc ? kToNhwc : kToNchw);
  graph.inputs[index] = outer;
  graph.nodes.insert(graph.nodes.begin(), make_transpose(graph, "input_layout:" + graph.value(outer).name, outer, inner,
                                                         to_nhwc ? kToNchw : kToNhwc));
}

void transpose_output(Graph& graph, size_t index, bool to_nhwc) {
  const ValueId inner = graph.outputs[index];
  const ValueId outer = split_value(graph, inner, to_nhwc ? ".nchw" : ".nhwc", to_nhwc ? kToNhwc : kToNchw);
  graph.outputs[index] = outer;
  graph.nodes.push_back(
      make_transpose(graph, "output_layout:" + graph.value(outer).name, inner, outer, to_nhwc ? kToNhwc : kToNchw));
}

}  // namespace

std::string layout_of_input(const Shape& shape) {
  if (shape.rank != 4) return {};
  return may_be_channels(shape[3]) && !may_be_channels(shape[1]) ? "NHWC" : "NCHW";
}

Result<IoEdges> set_io_layouts(Graph& graph, const CompileOptions& options) {
  IoEdges edges;
  std::string common = "NCHW";  // of the 4-D inputs; outputs are taken to have it too
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    edges.inputs.push_back({value.name, layout_of_input(value.shape)});
    if (value.shape.rank == 4) common = edges.inputs.back().layout;
  }
  for (ValueId id : graph.outputs) {
    const Value& value = graph.value(id);
    edges.outputs.push_back({value.name, value.shape.rank == 4 ? common : ""});
  }
  const auto change = [&](const std::string& wanted, std::vector<IoEdge>& have, const char* flag, const char* what,
                          void (*transpose)(Graph&, size_t, bool)) -> Status {
    if (wanted.empty()) return {};
    bool any = false;
    for (size_t i = 0; i < have.size(); ++i) {
      if (have[i].layout.empty()) continue;
      any = true;
      if (have[i].layout != wanted) transpose(graph, i, wanted == "NHWC");
      have[i].layout = wanted;
    }
    if (any) return {};
    return {Code::kInvalidArgument, std::string(flag) + " " + wanted + ": the model has no 4-D " + what};
  };
  KILN_TRY(change(options.input_layout, edges.inputs, "--input-layout", "input", transpose_input));
  KILN_TRY(change(options.output_layout, edges.outputs, "--output-layout", "output", transpose_output));
  return edges;
}

}  // namespace kiln
