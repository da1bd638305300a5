// Chooses, for a part of the graph at once, which nodes work on permuted tensors so that Transposes move the
// fewest bytes.
#pragma once

#include <set>
#include <utility>

#include "passes/perm.h"
#include "passes/rewriter.h"

namespace kiln {

// Seeds that turned out to be of no use, so that they are not tried again.
using TriedSeeds = std::set<std::pair<ValueId, Perm>>;

// The part of the graph is grown from `seed`, a value that could as well be there permuted by `perm`: through
// every node that can follow (permute_node.h), each value getting the perm in which it would be there.
// Transposes and all other nodes are its border. Each inner node then has two forms, and a value costs its
// bytes once if somebody needs it in another form than its producer gives. At the border a Transpose that
// merges with the perm asks for (or gives) the permuted form for nothing; everything else, graph inputs and
// graph outputs among them, has the plain one. The cheapest choice is a minimum cut.
//
// If it moves fewer bytes than there are moved now, nodes are changed and Transposes added where forms meet
// (run merge_transposes after that); true. Otherwise the graph stays, and all seeds that grow into the same
// part are put in `tried`.
bool relayout(Rewriter& rewriter, ValueId seed, const Perm& perm, TriedSeeds& tried);

// Transposes of Transposes become one, equal ones are shared, those that change nothing or are read by
// nothing go. Returns how many nodes changed.
int merge_transposes(Rewriter& rewriter);

// Bytes that the Transpose moves: 0 if it only moves axes of length 1.
int64_t transposed_bytes(Rewriter& rewriter, int n);

}  // namespace kiln
