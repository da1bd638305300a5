#include "cpu/strided_copy.h"
#include "ops/index.h"
#include "ops/kernel_checks.h"
#include "ops/slice/slice.h"

namespace kiln::ops::slice {
namespace {

void run(const KernelArgs& args) {
  const auto& p = args.params_as<SliceParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  StridedCopy copy;
  int64_t begin = 0;
  for (int i = 0; i < y.rank; ++i) {
    // The step of a single element may be anything: it is not used.
    const ptrdiff_t in_stride = y.dims[i] > 1 ? static_cast<ptrdiff_t>(x.strides[i]) * p.step[i] : 0;
    copy.add(y.dims[i], in_stride, y.strides[i]);
    begin += static_cast<int64_t>(p.start[i]) * x.strides[i];
  }
  strided_copy(args.parallel, copy, item_at(x, begin), y.data, item_bytes(x));
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_params<SliceParams>(args));
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layouts(args, false, false));
  const auto& p = args.params_as<SliceParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank != y.rank) return corrupt("slice changes dtype or rank");
  if (count_elements(y) == 0) return {};
  for (int i = 0; i < y.rank; ++i) {
    const int64_t last = p.start[i] + static_cast<int64_t>(y.dims[i] - 1) * p.step[i];
    if (p.start[i] < 0 || p.start[i] >= x.dims[i] || last < 0 || last >= x.dims[i]) {
      return corrupt("slice: elements outside the input");
    }
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"slice", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::slice
