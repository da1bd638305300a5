#include "cpu/strided_copy.h"
#include "ops/kernel_checks.h"
#include "ops/transpose/transpose.h"

namespace kiln::ops::transpose {
namespace {

void run(const KernelArgs& args) {
  const auto& p = args.params_as<TransposeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  StridedCopy copy;
  for (int i = 0; i < y.rank; ++i) copy.add(y.dims[i], x.strides[p.perm[i]], y.strides[i]);
  strided_copy(args.parallel, copy, x.data, y.data, item_bytes(x));
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_params<TransposeParams>(args));
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layouts(args, false, false));
  const auto& p = args.params_as<TransposeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank != y.rank) return corrupt("transpose changes dtype or rank");
  bool seen[kMaxRank] = {};
  for (int i = 0; i < y.rank; ++i) {
    const int32_t axis = p.perm[i];
    if (axis < 0 || axis >= x.rank || seen[axis]) return corrupt("transpose: no permutation");
    seen[axis] = true;
    if (y.dims[i] != x.dims[axis]) return corrupt("transpose: dims do not match");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"transpose", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::transpose
