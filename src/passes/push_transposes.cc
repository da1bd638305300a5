#include "passes/push_transposes.h"

#include "passes/match.h"
#include "passes/relayout.h"

namespace kiln {
namespace {

int make_reshapes(Rewriter& rewriter) {
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Transpose") || transposed_bytes(rewriter, n) != 0) continue;
    const Shape shape = rewriter.value(rewriter.output(n)).shape;
    if (shape.num_elements() == 0) continue;
    const std::string name = rewriter.value(rewriter.output(n)).name;
    const ValueId target = rewriter.add_i64_constant(name + ".shape", {shape.dims, shape.dims + shape.rank});
    Node& node = rewriter.node(n);
    node.op = "Reshape";
    node.opset = 14;
    node.attrs.clear();
    node.attrs["allowzero"] = int64_t{1};
    const ValueId x = node.inputs[0];
    rewriter.set_inputs(n, {x, target});
    ++changes;
  }
  return changes;
}

}  // namespace

Result<int> push_transposes(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = merge_transposes(rewriter);
  for (bool again = true; again;) {
    again = false;
    TriedSeeds tried;
    const int num_nodes = rewriter.num_nodes();
    for (int n = 0; n < num_nodes; ++n) {
      if (!rewriter.is_op(n, "Transpose") || transposed_bytes(rewriter, n) == 0) continue;
      const Perm perm = perm_of(rewriter.view(n));
      if (relayout(rewriter, rewriter.output(n), inverse(perm), tried) ||
          relayout(rewriter, rewriter.input(n, 0), perm, tried)) {
        ++changes;
        again = true;
      }
    }
    if (again) changes += merge_transposes(rewriter);
  }
  changes += make_reshapes(rewriter);
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
