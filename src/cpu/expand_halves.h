// IEEE halves to f32, exactly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

// `halves` are `count` little-endian halves at any address. Subnormal ones, infinities and NaNs keep what they are.
void expand_halves(const uint8_t* halves, size_t count, float* out);

}  // namespace kiln
