// Recognises activations that exporters spell out, so that they can be fused and run in one step.
#pragma once

#include "compile/compile.h"

namespace kiln {

//   x * Sigmoid(x)                                        -> kiln.Silu
//   Clip(x + 3, 0, 6) / 6, or times 1/6                   -> HardSigmoid(alpha = 1/6, beta = 1/2)
//   x * HardSigmoid(x) of those numbers, (x * Clip(x + 3, 0, 6)) / 6 -> HardSwish
//   x * Tanh(Softplus(x))                                 -> Mish
//   (x / 2) * (1 + Erf(x / sqrt 2)) in any order          -> Gelu
//   Max(x, c), Min(x, c) with one number; Clip of a Relu or Clip -> Clip
//   PRelu with one number for all                         -> LeakyRelu
// Only where the values in between have no other reader; f32.
Result<int> name_activations(Graph& graph, const OpRegistry& ops);

}  // namespace kiln
