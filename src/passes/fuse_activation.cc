#include "passes/fuse_activation.h"

#include <algorithm>

#include "passes/match.h"
#include "passes/merge_reshapes.h"

namespace kiln {
namespace {

struct Named {
  const char* kind;
  float a = 0;
  float b = 0;
};

std::optional<Named> as_activation(const NodeView& node) {
  const std::string& op = node.node().op;
  if (node.node().domain == "kiln" && op == "Silu") return Named{"Silu"};
  if (!node.node().domain.empty()) return std::nullopt;
  if (const auto bounds = clip_bounds(node)) {
    if (!(bounds->min <= bounds->max)) return std::nullopt;
    return Named{"Clip", bounds->min, bounds->max};
  }
  if (op == "LeakyRelu") return Named{"LeakyRelu", node.attr_float("alpha", 0.01f)};
  if (op == "HardSigmoid") return Named{"HardSigmoid", node.attr_float("alpha", 0.2f), node.attr_float("beta", 0.5f)};
  for (const char* plain : {"Sigmoid", "HardSwish", "Tanh"}) {
    if (op == plain) return Named{plain};
  }
  return std::nullopt;
}

bool takes_activation(const Node& node) {
  static constexpr const char* kOps[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Sub", "Mul", "Div"};
  if (!node.domain.empty() || has_attr(node, "activation")) return false;
  return std::any_of(std::begin(kOps), std::end(kOps), [&](const char* op) { return node.op == op; });
}

// The node that makes `x`, or makes what Reshapes and Transposes turn into `x`, if nothing else reads it on
// the way; else -1.
int find_producer(Rewriter& rewriter, ValueId x) {
  for (;;) {
    const int n = rewriter.producer(x);
    if (n < 0 || !rewriter.has_one_use(x)) return -1;
    if (!is_reshape(rewriter.node(n)) && !rewriter.is_op(n, "Transpose")) return n;
    x = rewriter.input(n, 0);
  }
}

}  // namespace

Result<int> fuse_activation(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    const std::optional<Named> activation = as_activation(rewriter.view(n));
    if (!activation || !is_f32(graph, rewriter.input(n, 0))) continue;
    const int before = find_producer(rewriter, rewriter.input(n, 0));
    if (before < 0 || !takes_activation(rewriter.node(before)) || !rewriter.bypass(n)) continue;
    Node& node = rewriter.node(before);
    node.attrs["activation"] = std::string(activation->kind);
    node.attrs["activation_a"] = activation->a;
    node.attrs["activation_b"] = activation->b;
    // With nothing in between the two kinds of residual are the same; with an activation it is the one
    // before.
    if (has_attr(node, "residual")) node.attrs["residual"] = std::string("before_activation");
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
