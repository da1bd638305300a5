#include "passes/fuse_residual.h"

#include "passes/match.h"

namespace kiln {
namespace {

bool takes_residual(Rewriter& rewriter, int add, ValueId conv_out, ValueId residual) {
  const int n = rewriter.sole_producer(conv_out, "Conv");
  if (n < 0 || rewriter.view(n).has_input(3)) return false;
  const Shape& shape = rewriter.value(conv_out).shape;
  if (!(shape == rewriter.value(residual).shape) || !(shape == rewriter.value(rewriter.output(add)).shape))
    return false;
  return !has_attr(rewriter.node(n), "activation") || !has_attr(rewriter.node(add), "activation");
}

}  // namespace

Result<int> fuse_residual(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Add") || rewriter.input(n, 0) == rewriter.input(n, 1)) continue;
    int best = -1;
    for (size_t i : {0, 1}) {
      const ValueId out = rewriter.input(n, i);
      if (!takes_residual(rewriter, n, out, rewriter.input(n, 1 - i))) continue;
      best = std::max(best, rewriter.producer(out));
    }
    if (best < 0) continue;
    const ValueId residual = other_input(rewriter.node(n), rewriter.output(best));
    const Node add = rewriter.node(n);
    rewriter.remove(n);
    rewriter.set_output(best, 0, add.outputs[0]);
    rewriter.set_input(best, 3, residual);
    Node& conv = rewriter.node(best);
    conv.attrs["residual"] = std::string(has_attr(conv, "activation") ? "after_activation" : "before_activation");
    for (const char* name : {"activation", "activation_a", "activation_b"}) {
      const auto found = add.attrs.find(name);
      if (found != add.attrs.end()) conv.attrs[name] = found->second;
    }
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
