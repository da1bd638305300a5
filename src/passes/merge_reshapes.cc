#include "passes/merge_reshapes.h"

#include "passes/match.h"

namespace kiln {

bool is_reshape(const Node& node) {
  return node.domain.empty() &&
         (node.op == "Reshape" || node.op == "Flatten" || node.op == "Squeeze" || node.op == "Unsqueeze");
}

Result<int> merge_reshapes(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (rewriter.is_dead(n) || !is_reshape(rewriter.node(n))) continue;
    const int before = rewriter.producer(rewriter.input(n, 0));
    if (before < 0 || !is_reshape(rewriter.node(before))) continue;
    // Copies: adding the constant moves values about.
    const Shape shape = rewriter.value(rewriter.output(n)).shape;
    const std::string name = rewriter.value(rewriter.output(n)).name;
    const ValueId source = rewriter.input(before, 0);
    const ValueId target = rewriter.add_i64_constant(name + ".shape", {shape.dims, shape.dims + shape.rank});
    Node& node = rewriter.node(n);
    node.op = "Reshape";
    node.opset = 14;
    node.attrs.clear();
    node.attrs["allowzero"] = int64_t{1};
    rewriter.set_inputs(n, {source, target});
    const ValueId between = rewriter.output(before);
    if (rewriter.consumers(between).empty() && !rewriter.is_output(between)) rewriter.remove(before);
    if (rewriter.value(source).shape == shape) rewriter.bypass(n);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
