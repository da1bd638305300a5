#include "base/dtype.h"

#include <cstring>

namespace kiln {
namespace {

struct DTypeRow {
  const char* name;
  uint8_t bytes;
};

constexpr DTypeRow kRows[kNumDTypes] = {
    {"invalid", 0}, {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}, {"i8", 1},  {"u8", 1},
    {"i16", 2},     {"u16", 2}, {"i32", 4}, {"u32", 4},  {"i64", 8}, {"u64", 8}, {"bool", 1},
};

uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

float bits_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

const DTypeRow& row(DType dtype) {
  const auto index = static_cast<uint8_t>(dtype);
  return kRows[index < kNumDTypes ? index : 0];
}

}  // namespace

size_t dtype_bytes(DType dtype) { return row(dtype).bytes; }

const char* dtype_name(DType dtype) { return row(dtype).name; }

DType parse_dtype(const char* name) {
  for (int i = 1; i < kNumDTypes; ++i) {
    if (std::strcmp(kRows[i].name, name) == 0) return static_cast<DType>(i);
  }
  return DType::kInvalid;
}

bool is_float(DType dtype) { return dtype >= DType::kF32 && dtype <= DType::kF64; }

bool is_integer(DType dtype) { return dtype >= DType::kI8 && dtype <= DType::kU64; }

bool is_unsigned(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64;
}

float f16_to_f32(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return bits_float(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return bits_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero
  return sign ? -magnitude : magnitude;
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65520 or more: infinity
  if (magnitude < 0x38800000u) {                        // subnormal half: let float addition round
    const float shifted = bits_float(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(float_bits(shifted) - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float bf16_to_f32(uint16_t bits) { return bits_float(uint32_t(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kiln
