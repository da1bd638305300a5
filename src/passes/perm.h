// Permutations of axes: out.dims[i] = in.dims[perm[i]], as the attribute of Transpose has them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "ops/definition.h"

namespace kiln {

using Perm = std::vector<int>;

Perm identity_perm(int rank);
bool is_identity(const Perm& perm);
Perm inverse(const Perm& perm);
// First `first`, then `second`: permute(permute(x, first), second) = permute(x, compose(first, second)).
Perm compose(const Perm& first, const Perm& second);

Shape permute(const Shape& shape, const Perm& perm);
Tensor permute(const Tensor& tensor, const Perm& perm);

// Permuting a tensor of this shape keeps the order of its elements in memory: only axes of length 1 move.
bool keeps_order(const Shape& shape, const Perm& perm);

// The perm of a Transpose node.
Perm perm_of(const NodeView& node);

}  // namespace kiln
