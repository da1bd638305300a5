// The k best of a classifier's scores.
#pragma once

#include <cstdint>

namespace kiln {

// Writes the k highest of n scores (k <= n), highest first, ties by lower index; NaN counts as lowest. With
// apply_softmax the scores written are e^(s - max) / sum over all n.
void top_k(const float* scores, int32_t n, int32_t k, bool apply_softmax, int32_t* indices, float* out_scores);

}  // namespace kiln
