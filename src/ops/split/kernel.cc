#include "cpu/strided_copy.h"
#include "ops/index.h"
#include "ops/kernel_checks.h"
#include "ops/split/split.h"

namespace kiln::ops::split {
namespace {

void run(const KernelArgs& args) {
  const int32_t axis = args.params_as<SplitParams>().axis;
  const TensorRef& x = args.in[0];
  for (int i = 0; i < args.num_out; ++i) {
    const TensorRef& y = args.out[i];
    if (!y.present() || y.num_elements() == 0) continue;
    StridedCopy copy;
    for (int k = 0; k < y.rank; ++k) copy.add(y.dims[k], x.strides[k], y.strides[k]);
    const int64_t begin = split_begins(args.params)[i];
    strided_copy(args.parallel, copy, item_at(x, begin * x.strides[axis]), y.data, item_bytes(x));
  }
}

Status check(const KernelArgs& args) {
  if (args.params_bytes < sizeof(SplitParams)) return corrupt("split: parameters have the wrong size");
  const auto& p = args.params_as<SplitParams>();
  if (p.count != args.num_out || args.params_bytes != sizeof(SplitParams) + size_t(args.num_out) * 4) {
    return corrupt("split: parameters have the wrong size");
  }
  if (args.num_in != 1 || !args.in[0].present()) return corrupt("split: one input");
  KILN_TRY(check_layouts(args, false, false));
  const TensorRef& x = args.in[0];
  if (p.axis < 0 || p.axis >= x.rank) return corrupt("split: axis outside the rank");
  for (int i = 0; i < args.num_out; ++i) {
    TensorRef y = args.out[i];
    if (!y.present()) continue;
    const int64_t begin = split_begins(args.params)[i];
    if (y.dtype != x.dtype || y.rank != x.rank || begin < 0 || begin + y.dims[p.axis] > x.dims[p.axis]) {
      return corrupt("split: a piece outside the input");
    }
    y.dims[p.axis] = x.dims[p.axis];
    if (!same_dims(x, y)) return corrupt("split: dims do not match");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"split", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::split
