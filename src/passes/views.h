// Marks Concats, Splits and Slices that need no step of their own, because kernels write and read their
// pieces in place.
#pragma once

#include <functional>

#include "compile/compile.h"

namespace kiln {

// Whether the kernel that the node will run on takes channel views as its inputs (as its outputs): see
// KernelDef.
using TakesViews = std::function<bool(const Graph& graph, const Node& node, bool as_input)>;

// Sets the attribute view = 1, which the planner obeys (plan/aliases.h). Only along the last axis: pieces are
// then channel views of the whole. (Along an axis with nothing but ones before it pieces are dense: the
// planner sees that by itself.)
//
// Concat: every input
//   - is made by a node that can write into a channel view, is no constant, no graph input, no graph output
//   - is a piece of this Concat only, and once
//   - is read by nodes that can all read a channel view
// Split, and Slice of the last axis alone with step 1: the input is no constant, and every output
//   - is no graph output and no piece of a marked Concat
//   - is read by nodes that can all read a channel view
int mark_views(Graph& graph, const TakesViews& takes_views);

// The pass: asks lowering and the built-in kernels. A node of another kernel does not take views.
Result<int> views(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
