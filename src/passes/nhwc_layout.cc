#include "passes/nhwc_layout.h"

#include <algorithm>

#include "passes/match.h"
#include "passes/perm.h"

namespace kiln {
namespace {

struct Spatial {
  const char* op;
  int min_rank;
  int max_rank;
};

constexpr Spatial kSpatial[] = {
    {"Conv", 3, 4},
    {"ConvTranspose", 3, 4},
    {"MaxPool", 3, 4},
    {"AveragePool", 3, 4},
    {"LpPool", 3, 4},
    {"GlobalMaxPool", 3, 4},
    {"GlobalAveragePool", 3, 4},
    {"GlobalLpPool", 3, 4},
    {"BatchNormalization", 3, 4},
    {"InstanceNormalization", 3, 4},
    {"LRN", 3, 4},
    {"DepthToSpace", 4, 4},
    {"SpaceToDepth", 4, 4},
};

bool is_spatial(Rewriter& rewriter, int n) {
  const Node& node = rewriter.node(n);
  if (rewriter.is_dead(n) || !node.domain.empty() || has_attr(node, "layout") || node.outputs.empty()) return false;
  const int rank = rewriter.value(node.inputs[0]).shape.rank;
  const auto fits = [&](const Spatial& s) { return node.op == s.op && rank >= s.min_rank && rank <= s.max_rank; };
  if (!std::any_of(std::begin(kSpatial), std::end(kSpatial), fits)) return false;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    // Indices of MaxPool, statistics of BatchNormalization: nobody may read them.
    const ValueId extra = node.outputs[i];
    if (extra != kNoValue && (!rewriter.consumers(extra).empty() || rewriter.is_output(extra))) return false;
  }
  return true;
}

Node make_transpose(const std::string& name, ValueId from, ValueId to, const Perm& perm) {
  Node node = make_node("Transpose", 13, name, {from}, to);
  node.attrs["perm"] = std::vector<int64_t>(perm.begin(), perm.end());
  return node;
}

}  // namespace

Result<int> nhwc_layout(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  const int num_nodes = rewriter.num_nodes();
  for (int n = 0; n < num_nodes; ++n) {
    if (!is_spatial(rewriter, n)) continue;
    const int rank = rewriter.value(rewriter.input(n, 0)).shape.rank;
    Perm to_nhwc = {0};
    for (int i = 2; i < rank; ++i) to_nhwc.push_back(i);
    to_nhwc.push_back(1);
    const bool is_conv = rewriter.is_op(n, "Conv");
    for (size_t i : {0, 3}) {
      if (i == 3 && !is_conv) break;
      const ValueId id = rewriter.input(n, i);
      if (id == kNoValue) continue;
      const Value value = rewriter.value(id);
      const ValueId nhwc = rewriter.add_value(value.name + ".nhwc", value.dtype, permute(value.shape, to_nhwc));
      rewriter.add_node_before(n, make_transpose(value.name + ".to_nhwc", id, nhwc, to_nhwc));
      rewriter.set_input(n, i, nhwc);
    }
    const ValueId out = rewriter.output(n);
    const Value value = rewriter.value(out);
    const ValueId nhwc = rewriter.add_value(value.name + ".nhwc", value.dtype, permute(value.shape, to_nhwc));
    rewriter.set_output(n, 0, nhwc);
    rewriter.node(n).outputs.resize(1);
    rewriter.node(n).attrs["layout"] = std::string("NHWC");
    rewriter.add_node_after(n, make_transpose(value.name + ".to_nchw", nhwc, out, inverse(to_nhwc)));
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
