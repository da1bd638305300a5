// How operators behave when their operands' axes are permuted: the rules behind push_transposes.
#pragma once

#include <optional>
#include <vector>

#include "passes/perm.h"
#include "passes/rewriter.h"

namespace kiln {

// A perm for each operand such that the node, changed accordingly, makes permuted outputs of permuted inputs.
// An empty perm: the operand is left as it is (absent, a scalar, a parameter such as axes).
struct OperandPerms {
  std::vector<Perm> inputs;
  std::vector<Perm> outputs;
};

// The perms of all operands if one of them (input or output `index`) is permuted by `perm`; nothing if this
// operator cannot follow, or if an input that would have to follow has another rank.
//
// Pointwise operators, Concat, Split, Slice, Pad, Reduce*, ArgMax/Min, CumSum, Softmax, Resize, Tile, Expand,
// Gather along one axis, Reshape (where axes that it merges or splits stay together), and NHWC convolutions
// and pools when height and width change places.
std::optional<OperandPerms> permuted_by_input(Rewriter& rewriter, int n, int index, const Perm& perm);
std::optional<OperandPerms> permuted_by_output(Rewriter& rewriter, int n, int index, const Perm& perm);

// Changes attributes and constant inputs of the node to what `perms` (from above) says. Its other operands,
// inputs that are no constants and outputs, still have their plain types; the caller replaces them after
// that.
void permute_node(Rewriter& rewriter, int n, const OperandPerms& perms);

}  // namespace kiln
