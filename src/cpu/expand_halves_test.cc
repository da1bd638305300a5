#include "cpu/expand_halves.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "base/dtype.h"

using namespace kiln;

TEST_CASE("expand_halves_every_half") {
  std::vector<uint8_t> bytes(1 + 2 * 65536);  // from an odd address
  for (uint32_t half = 0; half < 65536; ++half) {
    const auto value = static_cast<uint16_t>(half);
    std::memcpy(bytes.data() + 1 + 2 * half, &value, sizeof(value));
  }
  std::vector<float> all(65536);
  expand_halves(bytes.data() + 1, 65536, all.data());
  int wrong = 0;
  for (uint32_t half = 0; half < 65536; ++half) {
    const float expected = f16_to_f32(static_cast<uint16_t>(half));
    wrong += std::memcmp(&all[half], &expected, sizeof(float)) != 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("expand_halves_writes_as_many_as_told") {
  const uint16_t halves[7] = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x3555, 0x7c00};
  for (size_t count = 0; count <= 7; ++count) {
    float out[8] = {-9, -9, -9, -9, -9, -9, -9, -9};
    expand_halves(reinterpret_cast<const uint8_t*>(halves), count, out);
    for (size_t i = 0; i < 8; ++i) CHECK(out[i] == (i < count ? f16_to_f32(halves[i]) : -9.0f));
  }
}
