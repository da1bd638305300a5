// Shape and type inference over the whole graph, with constant folding on the way: shape chains end as constants.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "ops/definition.h"

namespace kiln {

// A node's outputs are folded only up to this many bytes, and all nodes' up to the second figure; above, nodes stay and
// run at run time.
struct FoldLimits {
  int64_t node_bytes = int64_t{64} << 20;
  int64_t total_bytes = int64_t{512} << 20;
};
// A node that makes more than this out of less than an eighth of it (Expand, ConstantOfShape, Tile) stays as well, so
// that the bundle does not swell, unless something behind it must have the constant.
constexpr int64_t kMaxGrownBytes = int64_t{1} << 20;

// Gives every value its dtype and static shape and replaces nodes whose outputs follow from constants and shapes by
// constants. Graph inputs must be static already and the nodes sorted.
//
// Problems do not stop it: every node that is wrong by itself is reported once, and nodes that read a value without a
// type because of an earlier problem are passed over (but an operator that is unknown is reported wherever it stands).
// Nodes that `problems` already names are passed over as well. With problems the graph is left partly inferred.
void infer_and_fold(Graph& graph, const OpRegistry& ops, std::vector<Problem>& problems, const FoldLimits& limits = {});

// Infers all types again without folding; for passes that changed shapes or layouts. The first problem is the Status.
Status infer_types(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
