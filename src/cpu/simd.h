// wasm SIMD intrinsics everywhere: the compiler's own in wasm, SIMDe's natively, plus the few that SIMDe
// 0.7.4 lacks.
#pragma once

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/wasm/simd128.h>
// Splats of constants, and the unsigned names of sign-agnostic operations.
#define wasm_i8x16_const_splat(x) wasm_i8x16_splat(x)
#define wasm_u8x16_const_splat(x) wasm_i8x16_splat(static_cast<int8_t>(x))
#define wasm_i16x8_const_splat(x) wasm_i16x8_splat(x)
#define wasm_u16x8_const_splat(x) wasm_i16x8_splat(static_cast<int16_t>(x))
#define wasm_i32x4_const_splat(x) wasm_i32x4_splat(x)
#define wasm_u32x4_const_splat(x) wasm_i32x4_splat(static_cast<int32_t>(x))
#define wasm_i64x2_const_splat(x) wasm_i64x2_splat(x)
#define wasm_f32x4_const_splat(x) wasm_f32x4_splat(x)
#define wasm_f64x2_const_splat(x) wasm_f64x2_splat(x)
#endif

// Before a loop of constant length over arrays that are to live in registers.
#ifdef __clang__
#define KILN_UNROLL _Pragma("clang loop unroll(full)")
#define KILN_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define KILN_UNROLL _Pragma("GCC unroll 16")
#define KILN_NO_UNROLL _Pragma("GCC unroll 1")
#endif

namespace kiln {

// a * b + c. Rounds once where the artefact has relaxed SIMD, twice elsewhere; lanes are independent either
// way.
inline v128_t f32x4_madd(v128_t a, v128_t b, v128_t c) {
#ifdef __wasm_relaxed_simd__
  return wasm_f32x4_relaxed_madd(a, b, c);
#else
  return wasm_f32x4_add(wasm_f32x4_mul(a, b), c);
#endif
}

// Scalar twin of f32x4_madd for tails: the same bits as a lane of the vector form.
inline float f32_madd(float a, float b, float c) {
#ifdef __wasm_relaxed_simd__
  return wasm_f32x4_extract_lane(wasm_f32x4_relaxed_madd(wasm_f32x4_splat(a), wasm_f32x4_splat(b), wasm_f32x4_splat(c)),
                                 0);
#else
  return a * b + c;
#endif
}

}  // namespace kiln
