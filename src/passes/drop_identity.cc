#include "passes/drop_identity.h"

#include <algorithm>

#include "passes/match.h"

namespace kiln {
namespace {

bool is_one_of(const std::string& op, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return op == name; });
}

bool all_equal(const std::optional<std::vector<int64_t>>& values, int64_t expected) {
  return values && std::all_of(values->begin(), values->end(), [&](int64_t v) { return v == expected; });
}

// The shape is the same before and after: does the node also keep every element in its place?
bool keeps_places(const NodeView& node) {
  const std::string& op = node.node().op;
  if (is_one_of(op, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"})) return true;
  if (op == "Pad") {
    return all_equal(ints_of(node, "pads", node.opset() < 11 ? 99 : 1), 0);
  }
  if (op == "Slice") {
    if (node.opset() < 10 || !node.has_input(4)) return true;
    const auto steps = ints_of(node, "", 4);
    return steps && std::all_of(steps->begin(), steps->end(), [](int64_t step) { return step > 0; });
  }
  if (op == "Transpose") {
    const std::vector<int64_t> perm = node.attr_ints("perm");
    if (perm.empty()) return node.input_shape(0).rank < 2;
    return std::is_sorted(perm.begin(), perm.end());
  }
  if (op == "Resize") {
    if (node.attr_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") return false;
    const int scales = node.opset() < 11 ? 1 : 2;
    const Tensor* factors = node.constant(scales);
    if (factors == nullptr || factors->num_elements() == 0) return node.constant(3) != nullptr;  // sizes: those it has
    return splat_constant(node.graph(), node.node().inputs[static_cast<size_t>(scales)]) == 1.0;
  }
  return false;
}

// Which input the node's first output is a copy of; -1 if of none.
int copied_input(Rewriter& rewriter, int n) {
  const NodeView node = rewriter.view(n);
  const std::string& op = node.node().op;
  if (!node.node().domain.empty() || node.num_inputs() < 1 || !node.has_input(0) || node.num_outputs() < 1) return -1;
  if (node.has_attr("activation") || !node.has_output(0)) return -1;
  for (int i = 1; i < node.num_outputs(); ++i) {
    if (!node.has_output(i)) continue;
    const ValueId extra = node.node().outputs[static_cast<size_t>(i)];
    if (!rewriter.consumers(extra).empty() || rewriter.is_output(extra)) return -1;
  }
  const Value& out = node.output(0);
  const auto same_type = [&](int i) { return node.input_dtype(i) == out.dtype && node.input_shape(i) == out.shape; };
  if (op == "Add" || op == "Mul") {
    const double neutral = op == "Add" ? 0 : 1;
    for (int i : {0, 1}) {
      if (same_type(i) && splat_constant(node.graph(), node.node().inputs[static_cast<size_t>(1 - i)]) == neutral)
        return i;
    }
    return -1;
  }
  if (!same_type(0)) return -1;
  if (is_one_of(op, {"Identity", "Dropout", "Cast", "CastLike"})) return 0;
  if (is_one_of(op, {"Concat", "Sum", "Max", "Min", "Mean"})) return node.num_inputs() == 1 ? 0 : -1;
  if (op == "Split") return node.num_outputs() == 1 ? 0 : -1;
  return keeps_places(node) ? 0 : -1;
}

}  // namespace

Result<int> drop_identity(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    const int i = copied_input(rewriter, n);
    if (i >= 0 && rewriter.bypass(n, static_cast<size_t>(i))) ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
