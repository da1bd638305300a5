#include "passes/fold_pad.h"

#include "passes/match.h"

namespace kiln {
namespace {

// Begin and end amounts of the spatial axes (begins first) if the Pad is one that can be folded; else empty.
std::vector<int64_t> spatial_pads(const NodeView& node) {
  const int rank = node.input_shape(0).rank;
  if (rank < 3 || node.attr_string("mode", "constant") != "constant") return {};
  // What is all padding would leave its reader an empty input, which is none.
  if (node.input_shape(0).num_elements() == 0) return {};
  if (node.opset() < 11 ? node.attr_float("value", 0) != 0 : node.has_input(2)) {
    if (node.opset() < 11 || splat_constant(node.graph(), node.node().inputs[2]) != 0.0) return {};
  }
  const auto pads = ints_of(node, "pads", node.opset() < 11 ? 99 : 1);
  if (!pads) return {};
  std::vector<int64_t> axes;
  if (node.has_input(3)) {
    if (node.constant(3) == nullptr) return {};
    axes = *ints_of(node, "", 3);
  } else {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (pads->size() != 2 * axes.size()) return {};
  std::vector<int64_t> spatial(static_cast<size_t>(2 * (rank - 2)), 0);
  for (size_t i = 0; i < pads->size(); ++i) {
    int axis = 0;
    if ((*pads)[i] < 0 || !normalize_axis(axes[i % axes.size()], rank, &axis)) return {};
    if ((*pads)[i] == 0) continue;
    if (axis < 2) return {};
    const int place = axis - 2 + (i < axes.size() ? 0 : rank - 2);
    spatial[static_cast<size_t>(place)] = (*pads)[i];
  }
  return spatial;
}

constexpr int64_t kMaxPad = 1 << 20;  // what every kernel with a window takes

std::vector<int64_t> sum_of_pads(const Node& node, const std::vector<int64_t>& more) {
  std::vector<int64_t> pads = attr_ints(node, "pads");
  if (pads.empty() || attr_string(node, "auto_pad", "NOTSET") == "VALID") pads.assign(more.size(), 0);
  for (size_t i = 0; i < more.size(); ++i) pads[i] += more[i];
  return pads;
}

bool takes_pads(Rewriter& rewriter, int n, ValueId padded, const std::vector<int64_t>& more) {
  const NodeView node = rewriter.view(n);
  const bool is_conv = rewriter.is_op(n, "Conv");
  if (!is_conv && !rewriter.is_op(n, "AveragePool")) return false;
  if (node.is_nhwc() || node.node().inputs[0] != padded) return false;
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (node.node().inputs[static_cast<size_t>(i)] == padded) return false;
  }
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  if (!auto_pad.empty() && auto_pad != "NOTSET" && auto_pad != "VALID") return false;
  for (int64_t pad : sum_of_pads(node.node(), more)) {
    if (pad > kMaxPad) return false;
  }
  if (is_conv) return true;
  if (node.attr_int("ceil_mode", 0) != 0) return false;
  if (node.attr_int("count_include_pad", 0) != 0) return true;
  for (int64_t pad : node.attr_ints("pads")) {
    if (pad != 0) return false;
  }
  return true;
}

void add_pads(Node& node, const std::vector<int64_t>& more) {
  node.attrs["pads"] = sum_of_pads(node, more);
  node.attrs.erase("auto_pad");
  if (node.op == "AveragePool") node.attrs["count_include_pad"] = int64_t{1};
}

}  // namespace

Result<int> fold_pad(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  // From the end, so that of two Pads in a row both can go.
  for (int n = rewriter.num_nodes() - 1; n >= 0; --n) {
    if (!rewriter.is_op(n, "Pad")) continue;
    const ValueId padded = rewriter.output(n);
    const std::vector<int64_t> pads = spatial_pads(rewriter.view(n));
    if (pads.empty() || rewriter.is_output(padded)) continue;
    const std::vector<int> readers = rewriter.consumers(padded);
    bool all = !readers.empty();
    for (int reader : readers) all = all && takes_pads(rewriter, reader, padded, pads);
    if (!all) continue;
    for (int reader : readers) add_pads(rewriter.node(reader), pads);
    rewriter.bypass(n);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
