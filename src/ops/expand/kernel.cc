#include "cpu/strided_copy.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::expand {
namespace {

// Each axis twice: the repeats, which do not move on the input, and the input's own elements.
void run(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  StridedCopy copy;
  for (int i = 0; i < y.rank; ++i) {
    const int k = i - (y.rank - x.rank);
    const int32_t dim = k < 0 ? 1 : x.dims[k];
    copy.add(y.dims[i] / dim, 0, static_cast<ptrdiff_t>(y.strides[i]) * dim);
    copy.add(dim, k < 0 ? 0 : x.strides[k], y.strides[i]);
  }
  strided_copy(args.parallel, copy, x.data, y.data, item_bytes(x));
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layouts(args, false, false));
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank > y.rank) return corrupt("repeat changes the dtype or lowers the rank");
  if (count_elements(y) == 0) return {};
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] == 0 || y.dims[i + y.rank - x.rank] % x.dims[i] != 0) return corrupt("repeat: dims do not match");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"repeat", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::expand
