#include "vision/classify.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kiln {

void top_k(const float* scores, int32_t n, int32_t k, bool apply_softmax, int32_t* indices, float* out_scores) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) order[size_t(i)] = i;
  const auto key = [&](int32_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
    const float ka = key(a);
    const float kb = key(b);
    return ka != kb ? ka > kb : a < b;
  });
  double sum = 0;
  const double max = k > 0 ? key(order[0]) : 0;
  if (apply_softmax) {
    for (int32_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(key(i)) - max);
  }
  for (int32_t i = 0; i < k; ++i) {
    const int32_t index = order[size_t(i)];
    indices[i] = index;
    out_scores[i] = apply_softmax ? static_cast<float>(std::exp(key(index) - max) / sum) : scores[index];
  }
}

}  // namespace kiln
