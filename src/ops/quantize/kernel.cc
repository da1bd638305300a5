#include <algorithm>
#include <cstring>

#include "cpu/broadcast.h"
#include "cpu/simd.h"
#include "ops/kernel_checks.h"
#include "ops/quantize/quantize.h"

namespace kiln::ops::quantize {

TensorRef along_axis(const TensorRef& table, int rank, int32_t axis) {
  TensorRef ref = table;
  ref.rank = static_cast<uint8_t>(axis < 0 ? 0 : rank - axis);
  for (int i = 0; i < ref.rank; ++i) {
    ref.dims[i] = i == 0 ? table.dims[0] : 1;
    ref.strides[i] = 1;
  }
  return ref;
}

namespace {

constexpr int64_t kStep = 16;  // elements

// Adding it to a number below 2^22 rounds that, halves to even, and leaves the integer in the low bits.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
constexpr int32_t kRounderBits = 0x4b400000;

// One scale for a whole row, f32 to or from 8 bits.
struct Row {
  float scale;
  int32_t zero_point;
  bool is_signed;
};

[[gnu::always_inline]] inline v128_t quantize4(const float* x, v128_t scale, v128_t low, v128_t high, v128_t offset) {
  const v128_t quotient = wasm_f32x4_div(wasm_v128_load(x), scale);
  const v128_t clamped = wasm_f32x4_pmin(wasm_f32x4_pmax(low, quotient), high);
  return wasm_i32x4_add(wasm_f32x4_add(clamped, wasm_f32x4_const_splat(kRounder)), offset);
}

// n is a multiple of kStep.
void quantize_steps(const float* x, uint8_t* y, int64_t n, const Row& row) {
  const int32_t lowest = row.is_signed ? -128 : 0;
  const v128_t scale = wasm_f32x4_splat(row.scale);
  const v128_t low = wasm_f32x4_splat(static_cast<float>(lowest - row.zero_point));
  const v128_t high = wasm_f32x4_splat(static_cast<float>(lowest + 255 - row.zero_point));
  const v128_t offset = wasm_i32x4_splat(row.zero_point - kRounderBits);
  KILN_NO_UNROLL
  for (int64_t i = 0; i < n; i += kStep) {
    const v128_t a = quantize4(x + i, scale, low, high, offset);
    const v128_t b = quantize4(x + i + 4, scale, low, high, offset);
    const v128_t c = quantize4(x + i + 8, scale, low, high, offset);
    const v128_t d = quantize4(x + i + 12, scale, low, high, offset);
    const v128_t ab = wasm_i16x8_narrow_i32x4(a, b);
    const v128_t cd = wasm_i16x8_narrow_i32x4(c, d);
    wasm_v128_store(y + i, row.is_signed ? wasm_i8x16_narrow_i16x8(ab, cd) : wasm_u8x16_narrow_i16x8(ab, cd));
  }
}

[[gnu::always_inline]] inline void dequantize8(v128_t x, v128_t zero_point, v128_t scale, float* y) {
  const v128_t difference = wasm_i16x8_sub(x, zero_point);
  const v128_t a = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(difference));
  const v128_t b = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(difference));
  wasm_v128_store(y, wasm_f32x4_mul(a, scale));
  wasm_v128_store(y + 4, wasm_f32x4_mul(b, scale));
}

void dequantize_steps(const uint8_t* x, float* y, int64_t n, const Row& row) {
  const v128_t scale = wasm_f32x4_splat(row.scale);
  const v128_t zero_point = wasm_i16x8_splat(static_cast<int16_t>(row.zero_point));
  KILN_NO_UNROLL
  for (int64_t i = 0; i < n; i += kStep) {
    const v128_t v = wasm_v128_load(x + i);
    dequantize8(row.is_signed ? wasm_i16x8_extend_low_i8x16(v) : wasm_u16x8_extend_low_u8x16(v), zero_point, scale,
                y + i);
    dequantize8(row.is_signed ? wasm_i16x8_extend_high_i8x16(v) : wasm_u16x8_extend_high_u8x16(v), zero_point, scale,
                y + i + 8);
  }
}

template <typename From, typename To>
void run_row(const From* x, To* y, int64_t n, const Row& row, void (*steps)(const From*, To*, int64_t, const Row&)) {
  const int64_t whole = n / kStep * kStep;
  steps(x, y, whole, row);
  if (whole == n) return;
  From from[kStep] = {};
  To to[kStep];
  std::memcpy(from, x + whole, static_cast<size_t>(n - whole) * sizeof(From));
  steps(from, to, kStep, row);
  std::memcpy(y + whole, to, static_cast<size_t>(n - whole) * sizeof(To));
}

bool is_8_bit(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// Both directions. Elements that are no row of 16s with one scale go one at a time.
void run_linear(const KernelArgs& args, bool quantizes) {
  const auto& p = args.params_as<QuantizeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const DType integer = quantizes ? y.dtype : x.dtype;
  const IntegerRange range = integer_range(integer);
  const TensorRef scale = along_axis(args.in[1], x.rank, p.axis);
  int32_t zero = 0;
  TensorRef zero_point;
  zero_point.data = &zero;
  if (args.num_in > 2 && args.in[2].present()) zero_point = along_axis(args.in[2], x.rank, p.axis);
  const bool is_fast = is_8_bit(integer) && (quantizes ? x : y).dtype == DType::kF32;
  const TensorRef* const operands[] = {&y, &x, &scale, &zero_point};
  for_each_block(make_broadcast_loop(operands, 4), args.parallel, [&](const LoopBlock& block) {
    const bool is_fast_row = is_fast && block.stride[0] == 1 && block.stride[1] == 1 && block.stride[2] == 0;
    for (int64_t r = 0; r < block.rows; ++r) {
      int64_t at[4];
      for (int k = 0; k < 4; ++k) at[k] = block.offset[k] + r * block.row_stride[k];
      for (int64_t i = 0; i < block.n; ++i) {
        const auto s = static_cast<float>(element_as_f64(scale.dtype, scale.data, at[2]));
        const int64_t z = element_as_i64(integer, zero_point.data, at[3]);
        if (is_fast_row) {
          const Row row = {s, static_cast<int32_t>(z), integer == DType::kI8};
          if (quantizes)
            run_row(x.as<float>() + at[1], y.as<uint8_t>() + at[0], block.n, row, quantize_steps);
          else
            run_row(x.as<uint8_t>() + at[1], y.as<float>() + at[0], block.n, row, dequantize_steps);
          break;
        }
        if (quantizes) {
          const auto value = static_cast<float>(element_as_f64(x.dtype, x.data, at[1]));
          store_i64(integer, y.data, at[0], round_to_range(value / s, z, range));
        } else {
          store_f64(y.dtype, y.data, at[0], static_cast<float>(element_as_i64(integer, x.data, at[1]) - z) * s);
        }
        for (int k = 0; k < 4; ++k) at[k] += block.stride[k];
      }
    }
  });
}

void quantize_linear(const KernelArgs& args) { run_linear(args, true); }
void dequantize_linear(const KernelArgs& args) { run_linear(args, false); }

const char* linear_problem(const KernelArgs& args, bool quantizes) {
  if (args.params_bytes != sizeof(QuantizeParams)) return "parameters have the wrong size";
  if (args.num_in < 2 || args.num_in > 3 || args.num_out != 1) return "wrong number of operands";
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const DType integer = quantizes ? y.dtype : x.dtype;
  if (!is_integer(integer) || dtype_bytes(integer) > 4) return "the quantised operand is no integer of up to 32 bits";
  if (!is_float(args.in[1].dtype)) return "scale is not a float";
  if (!quantizes && !is_float(y.dtype)) return "the output is not a float";
  if (const char* what = layout_problem(x, true)) return what;
  if (const char* what = layout_problem(y, true)) return what;
  if (!same_dims(x, y)) return "input and output differ in shape";
  const int32_t axis = args.params_as<QuantizeParams>().axis;
  if (axis < -1 || axis >= x.rank) return "axis out of range";
  for (int i = 1; i < args.num_in; ++i) {
    const TensorRef& table = args.in[i];
    if (i == 2 && !table.present()) break;
    if (i == 2 && table.dtype != integer) return "zero point has another dtype";
    if (const char* what = layout_problem(table, false)) return what;
    const bool fits = axis < 0 ? count_elements(table) == 1 : table.rank == 1 && table.dims[0] == x.dims[axis];
    if (!fits) return "scale or zero point does not fit the axis";
  }
  return nullptr;
}

const char* quantize_problem(const KernelArgs& args) { return linear_problem(args, true); }
const char* dequantize_problem(const KernelArgs& args) { return linear_problem(args, false); }

void quantize_dynamic(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const int64_t n = count_elements(x);
  const float* from = x.as<float>();
  const int64_t whole = n / 4 * 4;
  v128_t lows = wasm_f32x4_const_splat(0);
  v128_t highs = lows;
  for (int64_t i = 0; i < whole; i += 4) {
    const v128_t v = wasm_v128_load(from + i);
    lows = wasm_f32x4_pmin(lows, v);
    highs = wasm_f32x4_pmax(highs, v);
  }
  float low[4], high[4];
  wasm_v128_store(low, lows);
  wasm_v128_store(high, highs);
  for (int64_t i = whole; i < n; ++i) {
    low[0] = std::min(low[0], from[i]);
    high[0] = std::max(high[0], from[i]);
  }
  const DynamicScale dynamic = dynamic_scale(std::min(std::min(low[0], low[1]), std::min(low[2], low[3])),
                                             std::max(std::max(high[0], high[1]), std::max(high[2], high[3])));
  *args.out[1].as<float>() = dynamic.scale;
  *args.out[2].as<uint8_t>() = dynamic.zero_point;
  KernelArgs linear = args;
  const QuantizeParams params;
  const TensorRef in[] = {x, args.out[1], args.out[2]};
  linear.params = &params;
  linear.in = in;
  linear.num_in = 3;
  linear.num_out = 1;
  run_linear(linear, true);
}

const char* dynamic_problem(const KernelArgs& args) {
  if (args.params_bytes != 0 || args.num_in != 1 || args.num_out != 3) return "wrong number of operands";
  const DType dtypes[] = {DType::kF32, DType::kU8, DType::kF32, DType::kU8};
  for (int i = 0; i < 4; ++i) {
    const TensorRef& ref = i == 0 ? args.in[0] : args.out[i - 1];
    if (ref.dtype != dtypes[i]) return "wrong dtypes";
    if (const char* what = layout_problem(ref, false)) return what;
    if (i > 1 && count_elements(ref) != 1) return "scale and zero point are one number";
  }
  return same_dims(args.in[0], args.out[0]) ? nullptr : "input and output differ in shape";
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"quantize_linear", quantize_linear, check_by<quantize_problem>, true, true},
      {"dequantize_linear", dequantize_linear, check_by<dequantize_problem>, true, true},
      {"quantize_dynamic_u8", quantize_dynamic, check_by<dynamic_problem>},
  };
  return kKernels;
}

}  // namespace kiln::ops::quantize
