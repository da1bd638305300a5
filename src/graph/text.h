// The graph as text that a person can read, write and diff: printed by --dump and --stage, compared by golden tests.
//
//   graph "resnet" opset 13                                  # name; the opset that nodes of ONNX's domain have
//   meta "stride" = "32"
//   input %x: f32[1, 3, 8, 8]                                # an unknown dim is ?
//   const %w: f32[4, 3, 3, 3] = random(7)
//   const %axes: i64[2] = {1, -1}
//   %y: f32[1, 4, 6, 6] = Conv(%x, %w) strides=[1, 1] auto_pad="NOTSET" 'stem/conv'
//   %a, _ = Split(%y, _) axis=1                              # no type before inference; _ is an absent operand
//   %g: f32[1, 4, 6, 6] = com.microsoft::Gelu@1(%a)          # domain::op@opset where they are not the header's
//   output %g
//
// Names are bare where they consist of letters, digits and ./:-_ (no colon at the end), quoted otherwise: %"my value".
// Domains and operators are quoted also where they hold '::'.
// A node's name comes last, in single quotes. Attributes: 1, 1.5, "text", [1, 2], [1.5, 2.0], ["a", "b"], ints[],
// floats[], strings[], or a tensor i64[2]{3, 4}. Floats always show a point, an exponent, inf or nan. '#' starts a
// comment.
//
// A constant's elements are {…} (row-major), splat(v) (all the same), random(seed) or random(seed, lo, hi) (uniform,
// SplitMix64; for writing tests), or sha256:<16 digits>, which prints a constant too long to show and cannot be read
// back.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace kiln {

struct PrintOptions {
  int64_t inline_elements = 16;  // longer constants print as splat() or sha256:…
};

// Values that nothing mentions are left out. parse_graph(print_graph(g)) prints the same text again as long as no
// constant printed as sha256.
std::string print_graph(const Graph& graph, const PrintOptions& options = {});

// kInvalidArgument with the line number if the text is not well formed. Nodes may be in any order; types are not
// checked.
Result<Graph> parse_graph(std::string_view text);

// "%name", quoted where necessary; "_" for kNoValue.
std::string print_value_name(const Graph& graph, ValueId id);
// "f32[1, 3, 8, 8]"
std::string print_type(DType dtype, const Shape& shape);
// "[1, 2]", "\"NOTSET\"", …
std::string print_attr(const Attr& attr, const PrintOptions& options = {});

}  // namespace kiln
