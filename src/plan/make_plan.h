// Turns a finished graph into a plan with one profile: flat steps, every tensor's place, packed weights.
#pragma once

#include "graph/graph.h"
#include "ops/definition.h"
#include "plan/plan.h"

namespace kiln {

// The graph must be verified, with static shapes. Nodes are lowered in their order; what find_aliases made
// views costs no step; a graph output that is a graph input or a constant gets a copying step. Metadata and
// the layout of inputs and outputs are left for the caller to fill in.
//
// Equal graphs give equal plans, bit for bit, on every machine.
// Errors: whatever lowering says; kUnsupported for tensors or arenas beyond 2^31 bytes.
Result<Plan> make_plan(const Graph& graph, const OpRegistry& ops);

}  // namespace kiln
