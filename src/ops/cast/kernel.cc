#include "cpu/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::cast {
namespace {

template <typename From, typename To>
void cast_row(const void* x, void* y, int64_t from, int64_t to, int64_t n) {
  const From* in = static_cast<const From*>(x) + from;
  To* out = static_cast<To*>(y) + to;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
}

using CastRowFn = void (*)(const void* x, void* y, int64_t from, int64_t to, int64_t n);

// The pairs that models run on whole images or index lists; dense rows only.
CastRowFn find_fast_row(DType from, DType to) {
  if (to == DType::kF32 && from == DType::kU8) return cast_row<uint8_t, float>;
  if (to == DType::kF32 && from == DType::kI32) return cast_row<int32_t, float>;
  if (to == DType::kF32 && from == DType::kI64) return cast_row<int64_t, float>;
  if (to == DType::kI64 && from == DType::kI32) return cast_row<int32_t, int64_t>;
  if (to == DType::kI32 && from == DType::kI64) return cast_row<int64_t, int32_t>;
  return nullptr;
}

void cast_any(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const CastRowFn fast = find_fast_row(x.dtype, y.dtype);
  const bool as_f64 = is_float(x.dtype) || (x.dtype == DType::kU64 && is_float(y.dtype));
  const TensorRef* const operands[] = {&y, &x};
  for_each_block(make_broadcast_loop(operands, 2), args.parallel, [&](const LoopBlock& block) {
    for (int64_t r = 0; r < block.rows; ++r) {
      int64_t to = block.offset[0] + r * block.row_stride[0];
      int64_t from = block.offset[1] + r * block.row_stride[1];
      if (fast != nullptr && block.stride[0] == 1 && block.stride[1] == 1) {
        fast(x.data, y.data, from, to, block.n);
        continue;
      }
      for (int64_t i = 0; i < block.n; ++i, to += block.stride[0], from += block.stride[1]) {
        if (as_f64) {
          store_f64(y.dtype, y.data, to, element_as_f64(x.dtype, x.data, from));
        } else {
          store_i64(y.dtype, y.data, to, element_as_i64(x.dtype, x.data, from));
        }
      }
    }
  });
}

const char* cast_problem(const KernelArgs& args) {
  if (args.params_bytes != 0 || args.num_in != 1 || args.num_out != 1) return "cast_any takes one input";
  if (const char* what = layout_problem(args.in[0], true)) return what;
  if (const char* what = layout_problem(args.out[0], true)) return what;
  return broadcast_problem(args.in[0], args.out[0]);
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"cast_any", cast_any, check_by<cast_problem>, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::cast
