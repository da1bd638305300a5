#include "passes/merge_concats.h"

#include <map>
#include <set>

#include "passes/match.h"

namespace kiln {
namespace {

int axis_of(Rewriter& rewriter, int n, ValueId typed, int64_t fallback) {
  int axis = 0;
  const int rank = rewriter.value(typed).shape.rank;
  return normalize_axis(attr_int(rewriter.node(n), "axis", fallback), rank, &axis) ? axis : -1;
}
int concat_axis(Rewriter& rewriter, int n) { return axis_of(rewriter, n, rewriter.output(n), 1); }

bool join_split(Rewriter& rewriter, int n) {
  const std::vector<ValueId> pieces = rewriter.node(n).inputs;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int split = rewriter.producer(pieces[i]);
    if (!rewriter.is_op(split, "Split")) continue;
    const std::vector<ValueId>& parts = rewriter.node(split).outputs;
    if (i + parts.size() > pieces.size() || !std::equal(parts.begin(), parts.end(), pieces.begin() + long(i))) continue;
    const ValueId whole = rewriter.input(split, 0);
    if (axis_of(rewriter, split, whole, 0) != concat_axis(rewriter, n)) continue;
    std::vector<ValueId> joined(pieces.begin(), pieces.begin() + long(i));
    joined.push_back(whole);
    joined.insert(joined.end(), pieces.begin() + long(i + parts.size()), pieces.end());
    rewriter.set_inputs(n, joined);
    return true;
  }
  return false;
}

bool flatten(Rewriter& rewriter, int n) {
  const std::vector<ValueId> pieces = rewriter.node(n).inputs;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int inner = rewriter.sole_producer(pieces[i], "Concat");
    if (inner < 0 || concat_axis(rewriter, inner) != concat_axis(rewriter, n)) continue;
    std::vector<ValueId> flat(pieces.begin(), pieces.begin() + long(i));
    const std::vector<ValueId> parts = rewriter.node(inner).inputs;
    flat.insert(flat.end(), parts.begin(), parts.end());
    flat.insert(flat.end(), pieces.begin() + long(i) + 1, pieces.end());
    rewriter.set_inputs(n, flat);
    rewriter.remove(inner);
    return true;
  }
  return false;
}

// Concats by axis and inputs, and how many inputs the ones along each axis have.
struct Made {
  std::map<std::pair<int, std::vector<ValueId>>, int> by_pieces;
  std::set<std::pair<int, size_t>> lengths;
};

// Longest beginning of the inputs that another Concat has already.
bool use_prefix(Rewriter& rewriter, int n, Made& made) {
  const std::vector<ValueId> pieces = rewriter.node(n).inputs;
  const int axis = concat_axis(rewriter, n);
  int found = -1;
  size_t length = pieces.size();
  for (auto i = made.lengths.lower_bound({axis, length}); found < 0 && i != made.lengths.begin();) {
    --i;
    length = i->second;
    if (i->first != axis || length < 2) break;
    const auto place = made.by_pieces.find({axis, {pieces.begin(), pieces.begin() + long(length)}});
    if (place != made.by_pieces.end()) found = place->second;
  }
  made.by_pieces[{axis, pieces}] = n;
  made.lengths.insert({axis, pieces.size()});
  if (found < 0) return false;
  std::vector<ValueId> shorter = {rewriter.output(found)};
  shorter.insert(shorter.end(), pieces.begin() + long(length), pieces.end());
  rewriter.set_inputs(n, shorter);
  return true;
}

}  // namespace

Result<int> merge_concats(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Concat")) continue;
    while (join_split(rewriter, n) || flatten(rewriter, n)) ++changes;
  }
  Made made;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Concat") || rewriter.node(n).inputs.size() < 2) continue;
    if (use_prefix(rewriter, n, made)) ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
