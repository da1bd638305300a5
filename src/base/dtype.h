// Element types of tensors: their names, sizes and how a half or bfloat converts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

// The numbers are stored in bundles: append only.
enum class DType : uint8_t {
  kInvalid = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kU16 = 8,
  kI32 = 9,
  kU32 = 10,
  kI64 = 11,
  kU64 = 12,
  kBool = 13,  // one byte, 0 or 1
};
constexpr int kNumDTypes = 14;

// Bytes of one element; 0 for kInvalid.
size_t dtype_bytes(DType dtype);

// "f32", "i64", "bool", …; "invalid" for anything else.
const char* dtype_name(DType dtype);

// The inverse of dtype_name; kInvalid if the name is unknown.
DType parse_dtype(const char* name);

bool is_float(DType dtype);    // f16, bf16, f32, f64
bool is_integer(DType dtype);  // signed and unsigned, not bool
bool is_unsigned(DType dtype);

// IEEE 754 binary16 and bfloat16, rounding to nearest even; NaN stays NaN.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

}  // namespace kiln
