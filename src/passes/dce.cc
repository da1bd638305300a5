#include "passes/dce.h"

#include <algorithm>

#include "passes/rewriter.h"

namespace kiln {
namespace {

bool has_optional_outputs(const Node& node) {
  static constexpr const char* kOps[] = {"MaxPool", "Dropout", "BatchNormalization", "LayerNormalization"};
  return node.domain.empty() &&
         std::any_of(std::begin(kOps), std::end(kOps), [&](const char* op) { return node.op == op; });
}

}  // namespace

Result<int> dce(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  const auto is_read = [&](ValueId id) {
    return id != kNoValue && (!rewriter.consumers(id).empty() || rewriter.is_output(id));
  };
  int changes = 0;
  for (int n = rewriter.num_nodes() - 1; n >= 0; --n) {
    Node& node = rewriter.node(n);
    if (std::none_of(node.outputs.begin(), node.outputs.end(), is_read)) {
      rewriter.remove(n);
      ++changes;
      continue;
    }
    if (!has_optional_outputs(node)) continue;
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue || is_read(node.outputs[i])) continue;
      rewriter.set_output(n, i, kNoValue);
      ++changes;
    }
    while (node.outputs.size() > 1 && node.outputs.back() == kNoValue) node.outputs.pop_back();
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
