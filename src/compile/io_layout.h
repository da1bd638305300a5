// The layout of 4-D graph inputs and outputs: what it is, and --input-layout / --output-layout.
#pragma once

#include "compile/compile.h"

namespace kiln {

// "NCHW" or "NHWC" for a 4-D shape (NHWC if only the last dim can be the channels of an image), "" for any other rank.
std::string layout_of_input(const Shape& shape);

struct IoEdge {
  std::string name;    // the model's, whatever its value in the graph is called by now
  std::string layout;  // "NCHW", "NHWC" or ""
};
struct IoEdges {
  std::vector<IoEdge> inputs;
  std::vector<IoEdge> outputs;
};

// Gives every 4-D input and output the layout that the options ask for: a Transpose stands between it and the rest of
// the graph, which the layout passes then merge away where they can. Run on an inferred graph. Returns inputs and
// outputs in their order.
Result<IoEdges> set_io_layouts(Graph& graph, const CompileOptions& options);

}  // namespace kiln
