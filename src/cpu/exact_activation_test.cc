#include "cpu/exact_activation.h"

#include <doctest/doctest.h>

#include <cstring>

namespace kiln {

TEST_SUITE("cpu/exact_activation") {
  TEST_CASE("vectors_give_the_bits_of_the_scalar_twin_and_are_close_to_the_formula") {
    for (int32_t kind = 0; kind < kNumActivations; ++kind) {
      CAPTURE(kind);
      const Activation activation{kind, 0.2f, 0.5f};
      for (int i = -20000; i <= 20000; ++i) {
        const float x = static_cast<float>(i) * 0.0061f;
        const float vector = wasm_f32x4_extract_lane(exact_activation(activation, wasm_f32x4_splat(x)), 2);
        const float scalar = exact_activation(activation, x);
        REQUIRE(std::memcmp(&vector, &scalar, sizeof(float)) == 0);
        const double expected = apply_activation(activation, x);
        REQUIRE(std::fabs(double{scalar} - expected) <= 4e-7 * std::fmax(1, std::fabs(expected)));
      }
    }
  }
}

}  // namespace kiln
