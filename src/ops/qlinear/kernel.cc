#include "cpu/broadcast.h"
#include "ops/conv/geometry.h"
#include "ops/kernel_checks.h"
#include "ops/matmul/batches.h"
#include "ops/qlinear/qlinear.h"

namespace kiln::ops::qlinear {
namespace {

bool is_8_bit(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// Dtypes, dense operands of less than 2^31 elements, tables that are not empty.
const char* slots_problem(const KernelArgs& args) {
  if (args.num_in != kNumSlots || args.num_out != 1) return "wrong number of operands";
  const DType x = args.in[kX].dtype;
  const DType w = args.in[kW].dtype;
  const DType y = args.out[0].dtype;
  const bool is_sum = y == DType::kI32;
  if (!is_8_bit(x) || !is_8_bit(w) || (!is_sum && !is_8_bit(y))) return "an operand has the wrong dtype";
  const DType dtypes[] = {x, w, x, w, DType::kF32, DType::kF32, DType::kF32, y, DType::kI32};
  for (int slot = 0; slot < kNumSlots; ++slot) {
    const TensorRef& ref = args.in[slot];
    if (!ref.present()) {
      if (!is_sum && slot >= kXScale && slot <= kYScale) return "a scale is absent";
      continue;
    }
    if (ref.dtype != dtypes[slot]) return "an operand has the wrong dtype";
    if (const char* what = layout_problem(ref, false)) return what;
    if (count_elements(ref) < (slot > kW ? 1 : 0)) return "an operand is empty or too large";
  }
  if (count_elements(args.out[0]) < 0) return "an operand is empty or too large";
  return layout_problem(args.out[0], false);
}

const char* conv_problem(const KernelArgs& args) {
  if (args.params_bytes != sizeof(conv::ConvParams)) return "parameters have the wrong size";
  if (const char* what = slots_problem(args)) return what;
  const auto& p = args.params_as<conv::ConvParams>();
  const TensorRef& x = args.in[kX];
  const TensorRef& w = args.in[kW];
  const TensorRef& y = args.out[0];
  bool fits = x.rank >= 3 && x.rank <= 5 && w.rank == x.rank && y.rank == x.rank;
  fits = fits && p.group >= 1 && y.dims[1] % p.group == 0 && y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0] &&
         int64_t{w.dims[1]} * p.group == x.dims[1];
  for (int i = 0; fits && i < 3; ++i) {
    const int axis = x.rank - 3 + i;
    fits =
        p.kernel[i] == (axis < 2 ? 1 : w.dims[axis]) && p.stride[i] >= 1 && p.dilation[i] >= 1 && p.pad_begin[i] >= 0;
  }
  fits = fits && count_elements(x) > 0 && count_elements(w) > 0 && count_elements(y) > 0;
  fits = fits && (!args.in[kBias].present() || count_elements(args.in[kBias]) == y.dims[1]);
  return fits ? nullptr : "operands and parameters do not fit";
}

Status check_matmul(const KernelArgs& args) {
  KILN_TRY(check_params<matmul::MatmulParams>(args));
  const auto& p = args.params_as<matmul::MatmulParams>();
  const char* what = slots_problem(args);
  if (what == nullptr && (p.trans_a != 0 || p.trans_b != 0 || args.in[kBias].present())) what = "an unknown form";
  if (what != nullptr) return corrupt(what);
  KernelArgs factors = args;
  factors.num_in = 2;
  return matmul::check_product(factors, false);
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"qlinear_conv_any", run_conv, check_by<conv_problem>},
      {"qlinear_matmul_any", run_matmul, check_matmul},
  };
  return kKernels;
}

}  // namespace kiln::ops::qlinear
