#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/broadcast.h"
#include "cpu/simd.h"
#include "ops/kernel_checks.h"
#include "ops/quant_pointwise/quant_pointwise.h"

namespace kiln::ops::quant_pointwise {

namespace {

bool is_byte(const TensorRef& ref) { return ref.dtype == DType::kU8 || ref.dtype == DType::kI8; }

// --- tables ---

void run_table(const KernelArgs& args) {
  const TensorRef* const operands[] = {&args.out[0], &args.in[0]};
  const auto* x = args.in[0].as<uint8_t>();
  const auto* table = args.in[1].as<uint8_t>();
  auto* y = args.out[0].as<uint8_t>();
  for_each_block(make_broadcast_loop(operands, 2), args.parallel, [&](const LoopBlock& block) {
    for (int64_t r = 0; r < block.rows; ++r) {
      uint8_t* to = y + block.offset[0] + r * block.row_stride[0];
      const uint8_t* from = x + block.offset[1] + r * block.row_stride[1];
      for (int64_t i = 0; i < block.n; ++i) to[i * block.stride[0]] = table[from[i * block.stride[1]]];
    }
  });
}

const char* table_problem(const KernelArgs& args) {
  if (args.params_bytes != 0 || args.num_in != 2 || args.num_out != 1) return "quant_table takes two inputs";
  const TensorRef& table = args.in[1];
  if (!is_byte(args.in[0]) || !is_byte(args.out[0])) return "quant_table: dtype";
  if (table.dtype != args.out[0].dtype || table.num_elements() != 256 || !table.is_contiguous()) {
    return "quant_table: table";
  }
  if (const char* what = layout_problem(args.in[0], true)) return what;
  if (const char* what = layout_problem(args.out[0], true)) return what;
  return same_dims(args.in[0], args.out[0]) ? nullptr : "quant_table: shapes differ";
}

// --- two operands ---

// Eight numbers less their zero, as 16 bits. Fewer are copied; a broadcast operand gives its one number.
struct Side {
  const uint8_t* from;
  int64_t stride;
  bool is_signed;
  int32_t zero;

  v128_t load(int64_t i, int64_t count) const {
    alignas(16) uint8_t bytes[8];
    const uint8_t* at = from + i * stride;
    if (stride != 1 || count < 8) {
      for (int64_t k = 0; k < 8; ++k) bytes[k] = at[std::min(k, count - 1) * stride];
      at = bytes;
    }
    const v128_t wide = is_signed ? wasm_i16x8_load8x8(at) : wasm_u16x8_load8x8(at);
    return wasm_i16x8_sub(wide, wasm_i16x8_splat(static_cast<int16_t>(zero)));
  }
};

// Four numbers of 32 bits to rounded outputs.
inline v128_t combine(const QuantBinaryParams& p, bool is_mul, v128_t a, v128_t b) {
  v128_t s =
      wasm_f32x4_mul(wasm_f32x4_convert_i32x4(is_mul ? wasm_i32x4_mul(a, b) : a), wasm_f32x4_splat(p.a_multiplier));
  if (!is_mul) {
    s = wasm_f32x4_add(s, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(b), wasm_f32x4_splat(p.b_multiplier)));
  }
  const v128_t raised = wasm_f32x4_pmax(wasm_f32x4_splat(p.low), wasm_f32x4_nearest(s));
  return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_pmin(wasm_f32x4_splat(p.high), raised));
}

void run_binary(const KernelArgs& args) {
  const auto& p = args.params_as<QuantBinaryParams>();
  const TensorRef* const operands[] = {&args.out[0], &args.in[0], &args.in[1]};
  const bool is_mul = p.function == static_cast<int32_t>(QuantFunction::kMul);
  const bool is_signed = args.out[0].dtype == DType::kI8;
  auto* y = args.out[0].as<uint8_t>();
  for_each_block(make_broadcast_loop(operands, 3), args.parallel, [&](const LoopBlock& block) {
    for (int64_t r = 0; r < block.rows; ++r) {
      const auto side = [&](int k, int32_t zero) {
        const TensorRef& in = args.in[k];
        return Side{in.as<uint8_t>() + block.offset[k + 1] + r * block.row_stride[k + 1], block.stride[k + 1],
                    in.dtype == DType::kI8, zero};
      };
      const Side a = side(0, p.a_zero);
      const Side b = side(1, p.b_zero);
      uint8_t* to = y + block.offset[0] + r * block.row_stride[0];
      for (int64_t i = 0; i < block.n; i += 8) {
        const int64_t count = std::min<int64_t>(8, block.n - i);
        const v128_t left = a.load(i, count);
        const v128_t right = b.load(i, count);
        const v128_t low = combine(p, is_mul, wasm_i32x4_extend_low_i16x8(left), wasm_i32x4_extend_low_i16x8(right));
        const v128_t high = combine(p, is_mul, wasm_i32x4_extend_high_i16x8(left), wasm_i32x4_extend_high_i16x8(right));
        const v128_t wide =
            wasm_i16x8_add(wasm_i16x8_narrow_i32x4(low, high), wasm_i16x8_splat(static_cast<int16_t>(p.y_zero)));
        const v128_t bytes = is_signed ? wasm_i8x16_narrow_i16x8(wide, wide) : wasm_u8x16_narrow_i16x8(wide, wide);
        if (block.stride[0] == 1 && count == 8) {
          wasm_v128_store64_lane(to + i, bytes, 0);
          continue;
        }
        alignas(16) uint8_t out[8];
        wasm_v128_store64_lane(out, bytes, 0);
        for (int64_t k = 0; k < count; ++k) to[(i + k) * block.stride[0]] = out[k];
      }
    }
  });
}

const char* binary_problem(const KernelArgs& args) {
  if (args.params_bytes != sizeof(QuantBinaryParams)) return "quant_binary: params";
  if (args.num_in != 2 || args.num_out != 1) return "quant_binary takes two inputs";
  const auto& p = args.params_as<QuantBinaryParams>();
  const TensorRef& y = args.out[0];
  if (!is_byte(args.in[0]) || !is_byte(args.in[1]) || !is_byte(y)) return "quant_binary: dtype";
  const auto is_zero_of = [](const TensorRef& ref, int32_t zero) {
    return ref.dtype == DType::kI8 ? zero >= -128 && zero <= 127 : zero >= 0 && zero <= 255;
  };
  if (!is_zero_of(args.in[0], p.a_zero) || !is_zero_of(args.in[1], p.b_zero) || !is_zero_of(y, p.y_zero)) {
    return "quant_binary: zero";
  }
  const float lowest = static_cast<float>((y.dtype == DType::kI8 ? -128 : 0) - p.y_zero);
  if (!(p.low <= p.high && p.low >= lowest && p.high <= lowest + 255)) return "quant_binary: bounds";
  if (p.function < 0 || p.function > 1) return "quant_binary: function";
  if (const char* what = layout_problem(y, true)) return what;
  for (int i = 0; i < 2; ++i) {
    if (const char* what = layout_problem(args.in[i], true)) return what;
    if (const char* what = broadcast_problem(args.in[i], y)) return what;
  }
  return nullptr;
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kTable[] = {
      {"quant_table", run_table, check_by<table_problem>, true, true},
      {"quant_binary", run_binary, check_by<binary_problem>, true, true},
  };
  return kTable;
}

}  // namespace kiln::ops::quant_pointwise
