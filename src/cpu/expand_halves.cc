#include "cpu/expand_halves.h"

#include <cstring>

#include "base/dtype.h"
#include "cpu/simd.h"

namespace kiln {

// Exponent and mantissa move to where f32 has them; the product with 2^112 then corrects the exponent's bias, makes
// subnormal halves normal, and loses nothing. Infinities and NaNs come out as 2^16 and more: their exponent is put
// right.
void expand_halves(const uint8_t* halves, size_t count, float* out) {
  const v128_t magnitude_bits = wasm_i32x4_const_splat(0x7fff);
  const v128_t special = wasm_i32x4_const_splat(0x7c00);
  const v128_t exponent_bits = wasm_i32x4_const_splat(0x7f800000);
  const v128_t scale = wasm_f32x4_const_splat(0x1p112f);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const v128_t half = wasm_u32x4_load16x4(halves + 2 * i);
    const v128_t magnitude = wasm_v128_and(half, magnitude_bits);
    const v128_t sign = wasm_i32x4_shl(wasm_v128_xor(half, magnitude), 16);
    const v128_t value = wasm_f32x4_mul(wasm_i32x4_shl(magnitude, 13), scale);
    const v128_t is_special = wasm_v128_and(wasm_i32x4_ge(magnitude, special), exponent_bits);
    wasm_v128_store(out + i, wasm_v128_or(value, wasm_v128_or(sign, is_special)));
  }
  for (; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    out[i] = f16_to_f32(half);
  }
}

}  // namespace kiln
