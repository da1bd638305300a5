#include "passes/planar_input.h"

#include "passes/match.h"
#include "passes/perm.h"

namespace kiln {
namespace {

constexpr int64_t kMaxPlanes = 4;

bool takes_planes(Rewriter& rewriter, int n, ValueId x) {
  if (!rewriter.is_op(n, "Conv")) return false;
  const NodeView node = rewriter.view(n);
  if (!node.is_nhwc() || node.has_attr("input_layout") || node.constant(1) == nullptr) return false;
  return node.node().inputs[0] == x && !(node.has_input(3) && node.node().inputs[3] == x);
}

}  // namespace

Result<int> planar_input(Graph& graph, const OpRegistry& ops) {
  if (graph.quant != nullptr) return 0;  // the image becomes bytes first
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Transpose") || perm_of(rewriter.view(n)) != Perm{0, 2, 3, 1}) continue;
    const ValueId nhwc = rewriter.output(n);
    if (rewriter.is_output(nhwc) || rewriter.value(rewriter.input(n, 0)).shape[1] > kMaxPlanes) continue;
    const std::vector<int> readers = rewriter.consumers(nhwc);
    bool all = !readers.empty();
    for (int reader : readers) all = all && takes_planes(rewriter, reader, nhwc);
    if (!all) continue;
    for (int reader : readers) rewriter.node(reader).attrs["input_layout"] = std::string("NCHW");
    rewriter.bypass(n);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
