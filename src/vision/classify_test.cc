#include "vision/classify.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace kiln;

TEST_CASE("top_k_sorts_with_ties_by_index") {
  const float scores[] = {1, 5, NAN, 5, -2, 3};
  int32_t indices[6];
  float values[6];
  top_k(scores, 6, 4, false, indices, values);
  CHECK(std::vector<int32_t>(indices, indices + 4) == std::vector<int32_t>{1, 3, 5, 0});
  CHECK(values[0] == 5);
  CHECK(values[3] == 1);
  top_k(scores, 6, 6, false, indices, values);
  CHECK(indices[5] == 2);  // NaN last
  top_k(scores, 6, 0, true, indices, values);
}

TEST_CASE("top_k_softmax_is_over_all_scores") {
  const float scores[] = {1000, 1001, 1002, 1003};
  int32_t indices[2];
  float values[2];
  top_k(scores, 4, 2, true, indices, values);
  CHECK(indices[0] == 3);
  CHECK(values[0] == doctest::Approx(0.6439143));
  CHECK(values[1] == doctest::Approx(0.23688284));
}
