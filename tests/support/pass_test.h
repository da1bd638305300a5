// Runs passes over small graphs and checks that what the graph computes stays the same.
#pragma once

#include <string>

#include "compile/compile.h"

namespace kiln::test {

// The graph that the text describes, inferred and folded.
Graph read_graph(const std::string& text);

// Runs the pass; the graph must be a verified one after that, each value with the type that inference gives
// it.
int run_pass(Graph& graph, Result<int> (*pass)(Graph&, const OpRegistry&));

// Evaluates both with reference kernels on seeded random inputs: outputs have the same names, types and, to
// `tolerance` of the largest element, the same elements.
void expect_same_results(const Graph& before, const Graph& after, uint64_t seed = 1, double tolerance = 1e-5);

// How many nodes of this operator there are.
int count_nodes(const Graph& graph, const std::string& op);

// The only node of this operator.
const Node& only_node(const Graph& graph, const std::string& op);

}  // namespace kiln::test
