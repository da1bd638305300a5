// What passes look for in nodes: constants that are one number or one a channel, axes, bounds.
#pragma once

#include <optional>
#include <vector>

#include "passes/rewriter.h"

namespace kiln {

// The opset of ONNX's own domain in this graph; 13 if no node is of it.
int onnx_opset(const Graph& graph);

// A node of ONNX's domain with one output.
Node make_node(const char* op, int opset, const std::string& name, std::vector<ValueId> inputs, ValueId output);

// The number that all elements of a constant are; nothing for values that are no constants or have different
// elements.
std::optional<double> splat_constant(const Graph& graph, ValueId id);
// The same, compared with float precision.
bool is_splat(const Graph& graph, ValueId id, double expected);

// One number for each of `channels`, if the constant broadcasts along `axis` (of `rank`) only.
std::optional<std::vector<double>> channel_constant(const Graph& graph, ValueId id, int rank, int axis,
                                                    int64_t channels);

// An f32 tensor.
Tensor make_f32(const Shape& shape, const std::vector<double>& values);

// The constant of input i as integers, or attribute `name` if there is no such input; nothing if neither is
// there or the input is computed at run time.
std::optional<std::vector<int64_t>> ints_of(const NodeView& node, const char* name, int i);

// The other input of a binary node.
inline ValueId other_input(const Node& node, ValueId id) {
  return node.inputs[0] == id ? node.inputs[1] : node.inputs[0];
}

// If the node is a Relu, or a Clip whose bounds are constants: its bounds.
struct ClipBounds {
  float min = 0;
  float max = 0;
};
std::optional<ClipBounds> clip_bounds(const NodeView& node);

bool is_f32(const Graph& graph, ValueId id);

}  // namespace kiln
