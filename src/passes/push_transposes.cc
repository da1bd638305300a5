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

int64_t total_bytes(Rewriter& rewriter) {
  int64_t total = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (rewriter.is_op(n, "Transpose")) total += transposed_bytes(rewriter, n);
  }
  return total;
}

}  // namespace

Result<int> push_transposes(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = merge_transposes(rewriter);
  int64_t bytes = total_bytes(rewriter);
  TriedSeeds spent;  // seeds whose change saved less than it promised: not again
  for (bool again = true; again;) {
    again = false;
    TriedSeeds tried = spent;
    for (int n = 0; n < rewriter.num_nodes(); ++n) {
      if (!rewriter.is_op(n, "Transpose") || transposed_bytes(rewriter, n) == 0) continue;
      const Perm perm = perm_of(rewriter.view(n));
      const std::pair<ValueId, Perm> seeds[2] = {{rewriter.output(n), inverse(perm)}, {rewriter.input(n, 0), perm}};
      for (const auto& [value, value_perm] : seeds) {
        if (!relayout(rewriter, value, value_perm, tried)) continue;
        changes += 1 + merge_transposes(rewriter);
        const int64_t now = total_bytes(rewriter);
        if (now >= bytes) spent.insert({value, value_perm});
        bytes = now;
        tried = spent;
        again = true;
        break;
      }
    }
  }
  changes += make_reshapes(rewriter);
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
