#include "ops/conv/geometry.h"
#include "ops/kernel_checks.h"
#include "ops/matmul/batches.h"
#include "ops/qlinear/qlinear.h"

namespace kiln::ops::qlinear {
namespace {

bool is_8_bit(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// Dtypes, dense operands of less than 2^31 elements, tables that are not empty.
Status check_slots(const KernelArgs& args) {
  if (args.num_in != kNumSlots || args.num_out != 1) return corrupt("wrong number of operands");
  KILN_TRY(check_layouts(args, true, true));
  const TensorRef* in = args.in;
  const DType y = args.out[0].dtype;
  if (!is_8_bit(in[kX].dtype) || !is_8_bit(in[kW].dtype)) return corrupt("x or w is not of 8 bits");
  const bool is_sum = y == DType::kI32;
  if (!is_sum && !is_8_bit(y)) return corrupt("the output is not i32 or of 8 bits");
  const DType dtypes[] = {in[kX].dtype, in[kW].dtype, DType::kF32, DType::kF32, DType::kF32, y, DType::kI32};
  for (int slot = kXZero; slot < kNumSlots; ++slot) {
    const bool is_scale = slot == kXScale || slot == kWScale || slot == kYScale;
    if (!in[slot].present()) {
      if (is_scale && !is_sum) return corrupt("a scale is absent");
      continue;
    }
    if (in[slot].dtype != dtypes[slot - kXZero]) return corrupt("an operand has the wrong dtype");
    if (count_elements(in[slot]) < 1) return corrupt("an operand is empty");
  }
  return {};
}

Status check_conv(const KernelArgs& args) {
  KILN_TRY(check_params<conv::ConvParams>(args));
  KILN_TRY(check_slots(args));
  const auto& p = args.params_as<conv::ConvParams>();
  const TensorRef& x = args.in[kX];
  const TensorRef& w = args.in[kW];
  const TensorRef& y = args.out[0];
  if (x.rank < 3 || x.rank > 5 || w.rank != x.rank || y.rank != x.rank) return corrupt("operands are no images");
  if (p.group < 1 || y.dims[1] % p.group != 0 || y.dims[0] != x.dims[0] || y.dims[1] != w.dims[0] ||
      int64_t{w.dims[1]} * p.group != x.dims[1]) {
    return corrupt("channels or group do not fit");
  }
  for (int i = 0; i < 3; ++i) {
    const int axis = x.rank - 3 + i;
    const int32_t kernel = axis < 2 ? 1 : w.dims[axis];
    if (p.kernel[i] != kernel || p.stride[i] < 1 || p.dilation[i] < 1 || p.pad_begin[i] < 0) {
      return corrupt("kernel, stride, dilation or pad out of range");
    }
  }
  if (count_elements(x) < 1 || count_elements(w) < 1 || count_elements(y) < 1) return corrupt("an operand is empty");
  if (args.in[kBias].present() && count_elements(args.in[kBias]) != y.dims[1]) return corrupt("bias does not fit");
  return {};
}

Status check_matmul(const KernelArgs& args) {
  KILN_TRY(check_params<matmul::MatmulParams>(args));
  KILN_TRY(check_slots(args));
  const auto& p = args.params_as<matmul::MatmulParams>();
  if (p.trans_a != 0 || p.trans_b != 0 || args.in[kBias].present()) return corrupt("a form that this kernel has not");
  KernelArgs factors = args;
  factors.num_in = 2;
  return matmul::check_product(factors, false);
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"qlinear_conv_any", run_conv, check_conv},
      {"qlinear_matmul_any", run_matmul, check_matmul},
  };
  return kKernels;
}

}  // namespace kiln::ops::qlinear
