// The layout of 4-D graph inputs and outputs: what it is, and --input-layout / --output-layout.
#pragma once

#include "compile/compile.h"

namespace kiln {

// "NCHW" or "NHWC" for a 4-D shape (NHWC if only the last dim can be the channels of an image), "" for any other rank.
std::string layout_of_input(const Shape& shape);

// Gives every 4-D input and output the layout that the options ask for: it keeps its name, and a Transpose stands
// between it and the rest of the graph, which the layout passes then merge away where they can. Run on an inferred
// graph. Returns the layout of each input and output, in their order.
struct IoLayouts {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};
Result<IoLayouts> set_io_layouts(Graph& graph, const CompileOptions& options);

}  // namespace kiln
