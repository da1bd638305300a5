// Nodes that scale and shift channels, seen as y = scale[c] * x + shift[c].
#pragma once

#include <optional>
#include <vector>

#include "passes/match.h"

namespace kiln {

struct Affine {
  ValueId x = kNoValue;
  std::vector<double> scale;  // a channel
  std::vector<double> shift;
};

// BatchNormalization in inference mode with constant parameters; nothing if statistics outputs are read.
std::optional<Affine> batch_norm_as_affine(Rewriter& rewriter, int n);

// Add, Sub, Mul, Div (without fused activation) of x and a constant that is one number for each of `channels`
// along `axis`, or one for all. The output has x's shape.
std::optional<Affine> arithmetic_as_affine(Rewriter& rewriter, int n, int axis, int64_t channels);

}  // namespace kiln
