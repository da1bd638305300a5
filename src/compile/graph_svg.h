// Draws a graph as SVG: nodes in layers from top to bottom, tensors as lines with their shapes.
#pragma once

#include <string>

#include "graph/graph.h"

namespace kiln {

// Layered layout in the manner of Sugiyama, Tagawa, Toda (1981), kept simple: a node's layer is one below the lowest of
// its producers; within a layer nodes are ordered by the mean position of their producers, four sweeps down and up;
// edges are curves, which may pass behind nodes. Constants are not drawn but listed in their node. Any text of the
// graph is escaped.
std::string draw_graph(const Graph& graph);

}  // namespace kiln
