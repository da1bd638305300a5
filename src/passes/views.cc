#include "passes/views.h"

#include <algorithm>
#include <map>

#include "passes/match.h"

namespace kiln {
namespace {

class Marker {
 public:
  Marker(Graph& graph, const TakesViews& takes_views)
      : graph_(graph), takes_views_(takes_views), uses_(compute_uses(graph)), is_piece_(graph.values.size()) {}

  int mark() {
    int changes = 0;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (is_op(graph_.nodes[n], "Concat") && can_join(static_cast<int>(n))) {
        graph_.nodes[n].attrs["view"] = int64_t{1};
        for (ValueId id : graph_.nodes[n].inputs) is_piece_[static_cast<size_t>(id)] = true;
        ++changes;
      }
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!(is_op(node, "Split") && is_last(node.inputs[0], attr_int(node, "axis", 0))) && !cuts_last_axis(node))
        continue;
      if (!can_take_apart(static_cast<int>(n))) continue;
      graph_.nodes[n].attrs["view"] = int64_t{1};
      ++changes;
    }
    return changes;
  }

 private:
  static bool is_op(const Node& node, const char* op) { return node.domain.empty() && node.op == op; }
  const std::vector<int>& readers(ValueId id) const { return uses_.consumers[static_cast<size_t>(id)]; }

  bool is_last(ValueId id, int64_t axis) const {
    const Shape& shape = graph_.value(id).shape;
    int normal = 0;
    return normalize_axis(axis, shape.rank, &normal) && normal == shape.rank - 1 && shape.rank > 1 &&
           shape.num_elements() > 0;
  }

  bool can_use(int n, bool as_input) {
    const auto [place, is_new] = known_.emplace(std::pair(n, as_input), false);
    if (is_new) place->second = takes_views_(graph_, graph_.nodes[static_cast<size_t>(n)], as_input);
    return place->second;
  }

  bool all_readers_take_views(ValueId id, int except) {
    for (int n : readers(id)) {
      if (n != except && !can_use(n, true)) return false;
    }
    return true;
  }

  bool can_join(int n) {
    const Node& node = graph_.nodes[static_cast<size_t>(n)];
    if (!is_last(node.outputs[0], attr_int(node, "axis", 1))) return false;
    for (ValueId id : node.inputs) {
      const int producer = uses_.producer[static_cast<size_t>(id)];
      if (producer < 0 || uses_.is_output[static_cast<size_t>(id)] || is_piece_[static_cast<size_t>(id)]) return false;
      if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1 || graph_.value(id).shape.num_elements() == 0)
        return false;
      if (!can_use(producer, false) || !all_readers_take_views(id, n)) return false;
    }
    return true;
  }

  // Slice along the last axis alone, step 1.
  bool cuts_last_axis(const Node& node) const {
    if (!is_op(node, "Slice")) return false;
    const Shape& in = graph_.value(node.inputs[0]).shape;
    const Shape& out = graph_.value(node.outputs[0]).shape;
    if (in.rank < 2 || out.num_elements() == 0) return false;
    for (int i = 0; i < in.rank; ++i) {
      if ((in[i] == out[i]) != (i < in.rank - 1)) return false;
    }
    if (node.opset < 10) return true;
    const NodeView view(graph_, node);
    if (!view.has_input(4)) return true;
    const auto steps = ints_of(view, "", 4);
    return steps && std::all_of(steps->begin(), steps->end(), [](int64_t step) { return step == 1; });
  }

  bool can_take_apart(int n) {
    const Node& node = graph_.nodes[static_cast<size_t>(n)];
    if (graph_.is_constant(node.inputs[0])) return false;
    for (ValueId id : node.outputs) {
      if (id == kNoValue || uses_.is_output[static_cast<size_t>(id)] || is_piece_[static_cast<size_t>(id)])
        return false;
      if (graph_.value(id).shape.num_elements() == 0 || !all_readers_take_views(id, -1)) return false;
    }
    return true;
  }

  Graph& graph_;
  const TakesViews& takes_views_;
  const Uses uses_;
  std::vector<bool> is_piece_;  // by value: of a marked Concat
  std::map<std::pair<int, bool>, bool> known_;
};

}  // namespace

int mark_views(Graph& graph, const TakesViews& takes_views) { return Marker(graph, takes_views).mark(); }

Result<int> views(Graph& graph, const OpRegistry& ops) {
  return mark_views(graph, [&](const Graph& whole, const Node& node, bool as_input) {
    Lowering lowering;
    if (!lower_node(ops, whole, node, lowering).ok()) return false;
    const KernelDef* kernel = builtin_kernels().find(lowering.kernel.c_str());
    return kernel != nullptr && (as_input ? kernel->strided_inputs : kernel->strided_outputs);
  });
}

}  // namespace kiln
