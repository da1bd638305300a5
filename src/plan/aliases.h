// Decides which values live inside others, so that their Concat, Split, Slice or Reshape costs no step.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace kiln {

// Where a value lies: `offset` elements into its root's buffer, with these strides.
struct ValuePlace {
  ValueId root = kNoValue;  // the value that has a buffer; the value itself if it lies nowhere else
  int64_t offset = 0;
  int64_t strides[kMaxRank] = {};
};

struct Aliases {
  std::vector<ValuePlace> places;  // by value
  std::vector<bool> elided;        // by node: emits no step
};

// What becomes a view:
//   - the pieces of a Concat, in its output; the outputs of a Split or Slice, in its input: where a pass has
//   set the
//     attribute `view` = 1 (it knows that every kernel concerned takes strides), or where the pieces come out
//     dense
//   - Reshape, Flatten, Squeeze, Unsqueeze, Identity, and a Transpose that only moves axes of length 1: the
//   output in the
//     dense input, or the other way round where the output is itself a dense piece of a Concat
// What does not: constants; a graph output in a graph input; a graph output or graph input that would not be
// dense; a graph input as a piece; a value in two places. Such nodes stay steps, whether they have the
// attribute or not.
//
// Every value has at most one parent: downstream for a piece of a Concat, upstream otherwise. Pieces are
// settled first, from the last Concat to the first, so that a place never changes once somebody has looked at
// it for density.
Aliases find_aliases(const Graph& graph);

}  // namespace kiln
