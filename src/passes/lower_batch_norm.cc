#include "passes/lower_batch_norm.h"

#include "passes/affine.h"

namespace kiln {
namespace {

constexpr int64_t kMinDepthwiseChannels = 4;

void become_conv(Rewriter& rewriter, int n, const Affine& affine) {
  const auto channels = static_cast<int64_t>(affine.scale.size());
  const std::string name = rewriter.value(rewriter.output(n)).name;
  const ValueId scale = rewriter.add_constant(name + ".scale", make_f32({channels, 1, 1, 1}, affine.scale));
  const ValueId shift = rewriter.add_constant(name + ".shift", make_f32({channels}, affine.shift));
  Node& node = rewriter.node(n);
  node.op = "Conv";
  node.attrs.clear();
  node.attrs["group"] = channels;
  node.attrs["kernel_shape"] = std::vector<int64_t>{1, 1};
  node.outputs.resize(1);
  rewriter.set_inputs(n, {affine.x, scale, shift});
}

void become_mul_add(Rewriter& rewriter, int n, const Affine& affine) {
  const ValueId out = rewriter.output(n);
  const Value value = rewriter.value(out);
  const auto channels = static_cast<int64_t>(affine.scale.size());
  Shape shape;
  for (int i = 0; i < value.shape.rank; ++i) shape.push_back(i == 1 ? channels : 1);
  const ValueId scale = rewriter.add_constant(value.name + ".scale", make_f32(shape, affine.scale));
  const ValueId shift = rewriter.add_constant(value.name + ".shift", make_f32(shape, affine.shift));
  const ValueId product = rewriter.add_value(value.name + ".scaled", value.dtype, value.shape);
  Node add = make_node("Add", rewriter.node(n).opset, value.name + ".shift", {product, shift}, out);
  Node& node = rewriter.node(n);
  node.op = "Mul";
  node.attrs.clear();
  node.outputs.resize(1);
  rewriter.set_inputs(n, {affine.x, scale});
  rewriter.set_output(n, 0, product);
  rewriter.add_node_after(n, std::move(add));
}

}  // namespace

Result<int> lower_batch_norm(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  const int num_nodes = rewriter.num_nodes();
  for (int n = 0; n < num_nodes; ++n) {
    const std::optional<Affine> affine = batch_norm_as_affine(rewriter, n);
    if (!affine || !is_f32(graph, affine->x)) continue;
    const Shape& shape = graph.value(affine->x).shape;
    if (shape.rank < 2 || rewriter.view(n).is_nhwc()) continue;
    const bool has_elements = shape.num_elements() > 0;
    if (shape.rank == 4 && has_elements && shape[1] >= kMinDepthwiseChannels)
      become_conv(rewriter, n, *affine);
    else
      become_mul_add(rewriter, n, *affine);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
