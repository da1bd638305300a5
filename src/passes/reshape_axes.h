// Permutations on the two sides of a Reshape.
#pragma once

#include <optional>

#include "passes/perm.h"

namespace kiln {

// A Reshape of `from` to `to` splits and merges neighbouring axes. If `perm` of `from` keeps axes that belong
// together beside each other, there is a perm of `to` such that the Reshape between the permuted shapes does
// the same: [1,85,52,52] -> [1,85,2704] with perm 0231 gives 021. Axes of length 1 go with the axis before
// them, leading ones stay in front. Nothing if there is no such perm, or if a dim is 0.
std::optional<Perm> perm_across_reshape(const Shape& from, const Shape& to, const Perm& perm);

}  // namespace kiln
