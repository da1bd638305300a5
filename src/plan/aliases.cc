#include "plan/aliases.h"

#include <algorithm>
#include <optional>
#include <string>

namespace kiln {
namespace {

// One axis of a Slice with its bounds made absolute.
struct AxisSlice {
  int axis = 0;
  int64_t start = 0;
  int64_t step = 1;
};

bool is_onnx(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

std::vector<int64_t> read_integers(const Graph& graph, const Node& node, size_t input) {
  std::vector<int64_t> values;
  if (input >= node.inputs.size() || !graph.is_constant(node.inputs[input])) return values;
  const Tensor& tensor = *graph.value(node.inputs[input]).constant;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    values.push_back(element_as_i64(tensor.dtype(), tensor.data(), i));
  }
  return values;
}

class AliasFinder {
 public:
  explicit AliasFinder(const Graph& graph)
      : graph_(graph),
        uses_(compute_uses(graph)),
        parents_(graph.values.size()),
        depth_(graph.values.size()),
        is_input_(graph.values.size()) {
    for (ValueId id : graph.inputs) is_input_[index(id)] = true;
    elided_.resize(graph.nodes.size());
  }

  Aliases find() {
    for (const bool marked : {true, false}) {
      for (size_t n = graph_.nodes.size(); n-- > 0;) {
        const Node& node = graph_.nodes[n];
        if (is_onnx(node) && node.op == "Concat" && is_marked(node) == marked) elided_[n] = join_pieces(node);
      }
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (elided_[n] || !is_onnx(node)) continue;
      if (node.op == "Split") elided_[n] = take_parts(node, split_starts(node));
      if (node.op == "Slice") elided_[n] = take_parts(node, slice_starts(node));
      if (keeps_elements(node)) elided_[n] = take_whole(node);
    }
    Aliases aliases;
    aliases.elided = std::move(elided_);
    for (size_t id = 0; id < graph_.values.size(); ++id) aliases.places.push_back(place(static_cast<ValueId>(id)));
    return aliases;
  }

 private:
  // `parent` with the region that the child is; without a region the child is the whole parent under another
  // shape.
  struct Parent {
    ValueId value = kNoValue;
    bool is_region = false;
    std::vector<AxisSlice> region;
  };

  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  const Value& value(ValueId id) const { return graph_.value(id); }
  bool has_parent(ValueId id) const { return parents_[index(id)].value != kNoValue; }
  bool is_output(ValueId id) const { return uses_.is_output[index(id)]; }
  // Chains of views stay short, so that finding a place neither recurses deeply nor takes long.
  static constexpr int kMaxDepth = 32;
  bool has_room(ValueId parent) const { return depth_[index(parent)] < kMaxDepth; }
  void set_parent(ValueId id, Parent parent) {
    depth_[index(id)] = depth_[index(parent.value)] + 1;
    parents_[index(id)] = std::move(parent);
  }
  static bool is_marked(const Node& node) { return attr_int(node, "view", 0) == 1; }

  ValuePlace place(ValueId id) const { return place_in(id, parents_[index(id)]); }

  // Where `id` would lie if it had this parent.
  ValuePlace place_in(ValueId id, const Parent& parent) const {
    ValuePlace place;
    if (parent.value == kNoValue) {
      place.root = id;
      contiguous_strides(value(id).shape, place.strides);
      return place;
    }
    const ValuePlace outer = this->place(parent.value);
    place.root = outer.root;
    place.offset = outer.offset;
    if (!parent.is_region) {
      contiguous_strides(value(id).shape, place.strides);
      return place;
    }
    std::copy(std::begin(outer.strides), std::end(outer.strides), place.strides);
    for (const AxisSlice& slice : parent.region) {
      place.offset += slice.start * outer.strides[slice.axis];
      place.strides[slice.axis] = outer.strides[slice.axis] * slice.step;
    }
    return place;
  }

  bool is_dense(ValueId id, const ValuePlace& place) const {
    const Shape& shape = value(id).shape;
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
      if (shape.dims[i] != 1 && place.strides[i] != stride) return false;
      stride *= shape.dims[i];
    }
    return true;
  }

  // Concat: each input into its part of the output, all or none.
  bool join_pieces(const Node& node) {
    const ValueId whole = node.outputs[0];
    int axis = 0;
    if (!normalize_axis(attr_int(node, "axis", 0), value(whole).shape.rank, &axis)) return false;
    std::vector<ValueId> sorted = node.inputs;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
    std::vector<Parent> parents;
    int64_t start = 0;
    for (ValueId piece : node.inputs) {
      if (piece == kNoValue || !may_move(piece) || !has_room(whole)) return false;
      parents.push_back({whole, true, {{axis, start, 1}}});
      start += value(piece).shape[axis];
      const bool needs_density = !is_marked(node) || is_output(piece);
      if (needs_density && !is_dense(piece, place_in(piece, parents.back()))) return false;
    }
    for (size_t i = 0; i < parents.size(); ++i) {
      set_parent(node.inputs[i], parents[i]);
      move_source(node.inputs[i]);
    }
    return true;
  }

  // A value that may be told where to lie: a step makes it, and nobody else has told it yet.
  bool may_move(ValueId id) const {
    if (graph_.is_constant(id) || is_input_[index(id)] || has_parent(id)) return false;
    const int producer = uses_.producer[index(id)];
    if (producer < 0 || elided_[static_cast<size_t>(producer)]) {
      // A Concat's output is made by whoever makes its pieces; anything else that costs no step lies in its
      // input.
      return producer >= 0 && graph_.nodes[static_cast<size_t>(producer)].op == "Concat";
    }
    const Node& node = graph_.nodes[static_cast<size_t>(producer)];
    return !(is_onnx(node) && (node.op == "Split" || node.op == "Slice") && is_marked(node));
  }

  // `piece` has got its place; if it is only a Reshape of something, that something can be made there
  // directly.
  void move_source(ValueId piece) {
    for (;;) {
      const int producer = uses_.producer[index(piece)];
      const Node& node = graph_.nodes[static_cast<size_t>(producer)];
      if (elided_[static_cast<size_t>(producer)] || !is_onnx(node) || !keeps_elements(node)) return;
      const ValueId source = node.inputs[0];
      if (!may_move(source) || !has_room(piece) || !is_dense(piece, place(piece))) return;
      set_parent(source, {piece, false, {}});
      elided_[static_cast<size_t>(producer)] = true;
      piece = source;
    }
  }

  // Split, Slice: each output out of its part of the input, all or none.
  bool take_parts(const Node& node, const std::optional<std::vector<Parent>>& parents) {
    if (!parents || graph_.is_constant(node.inputs[0]) || !has_room(node.inputs[0])) return false;
    const ValueId root = place(node.inputs[0]).root;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (out == kNoValue) continue;
      if (has_parent(out) || (is_output(out) && is_input_[index(root)])) return false;
      const bool needs_density = !is_marked(node) || is_output(out);
      if (needs_density && !is_dense(out, place_in(out, (*parents)[i]))) return false;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) set_parent(node.outputs[i], (*parents)[i]);
    }
    return true;
  }

  std::optional<std::vector<Parent>> split_starts(const Node& node) const {
    int axis = 0;
    if (!normalize_axis(attr_int(node, "axis", 0), value(node.inputs[0]).shape.rank, &axis)) return std::nullopt;
    std::vector<Parent> parents;
    int64_t start = 0;
    for (ValueId out : node.outputs) {
      if (out == kNoValue) return std::nullopt;  // its length is in no shape
      parents.push_back({node.inputs[0], true, {{axis, start, 1}}});
      start += value(out).shape[axis];
    }
    return parents;
  }

  std::optional<std::vector<Parent>> slice_starts(const Node& node) const {
    const Shape& shape = value(node.inputs[0]).shape;
    const bool by_attributes = node.opset < 10;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue && !graph_.is_constant(node.inputs[i])) return std::nullopt;
    }
    const auto starts = by_attributes ? attr_ints(node, "starts") : read_integers(graph_, node, 1);
    auto axes = by_attributes ? attr_ints(node, "axes") : read_integers(graph_, node, 3);
    const auto steps = by_attributes ? std::vector<int64_t>() : read_integers(graph_, node, 4);
    if (axes.empty()) {
      for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.size() != starts.size() || (!steps.empty() && steps.size() != starts.size())) return std::nullopt;
    Parent parent{node.inputs[0], true, {}};
    for (size_t i = 0; i < starts.size(); ++i) {
      AxisSlice slice;
      if (!normalize_axis(axes[i], shape.rank, &slice.axis)) return std::nullopt;
      const int64_t dim = shape[slice.axis];
      slice.start = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + dim : starts[i], 0, dim);
      slice.step = steps.empty() ? 1 : steps[i];
      if (slice.step < 1 || slice.step > INT32_MAX) return std::nullopt;
      if (value(node.outputs[0]).shape[slice.axis] <= 1) slice.step = 1;
      for (const AxisSlice& other : parent.region) {
        if (other.axis == slice.axis) return std::nullopt;
      }
      parent.region.push_back(slice);
    }
    return std::vector<Parent>{parent};
  }

  // Operators whose output holds the input's elements in the same order.
  bool keeps_elements(const Node& node) const {
    static constexpr const char* kOps[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
    if (node.op == "Transpose") return keeps_order(node);
    return std::any_of(std::begin(kOps), std::end(kOps), [&](const char* op) { return node.op == op; });
  }

  bool keeps_order(const Node& node) const {
    const Shape& shape = value(node.inputs[0]).shape;
    const std::vector<int64_t> perm = attr_ints(node, "perm");
    int64_t last = -1;
    for (int i = 0; i < shape.rank; ++i) {
      const int64_t axis = perm.empty() ? shape.rank - 1 - i : perm[static_cast<size_t>(i)];
      if (shape[static_cast<int>(axis)] == 1) continue;
      if (axis < last) return false;
      last = axis;
    }
    return true;
  }

  bool take_whole(const Node& node) {
    const ValueId in = node.inputs[0];
    const ValueId out = node.outputs[0];
    if (graph_.is_constant(in) || has_parent(out) || !has_room(in)) return false;
    const ValuePlace outer = place(in);
    if (!is_dense(in, outer) || (is_output(out) && is_input_[index(outer.root)])) return false;
    set_parent(out, {in, false, {}});
    return true;
  }

  const Graph& graph_;
  const Uses uses_;
  std::vector<Parent> parents_;  // by value
  std::vector<int> depth_;       // by value: parents above it
  std::vector<bool> is_input_;   // by value
  std::vector<bool> elided_;     // by node
};

}  // namespace

Aliases find_aliases(const Graph& graph) { return AliasFinder(graph).find(); }

}  // namespace kiln
