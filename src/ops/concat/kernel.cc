#include "cpu/strided_copy.h"
#include "ops/concat/concat.h"
#include "ops/index.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::concat {
namespace {

void run(const KernelArgs& args) {
  const int32_t axis = args.params_as<ConcatParams>().axis;
  const TensorRef& y = args.out[0];
  int64_t begin = 0;
  for (int i = 0; i < args.num_in; ++i) {
    const TensorRef& x = args.in[i];
    if (x.num_elements() == 0) continue;
    StridedCopy copy;
    for (int k = 0; k < x.rank; ++k) copy.add(x.dims[k], x.strides[k], y.strides[k]);
    strided_copy(args.parallel, copy, x.data, mutable_item_at(y, begin * y.strides[axis]), item_bytes(x));
    begin += x.dims[axis];
  }
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_params<ConcatParams>(args));
  KILN_TRY(check_operands(args, args.num_in, args.num_in, 1));
  KILN_TRY(check_layouts(args, false, false));
  const int32_t axis = args.params_as<ConcatParams>().axis;
  const TensorRef& y = args.out[0];
  if (axis < 0 || axis >= y.rank) return corrupt("concat: axis outside the rank");
  int64_t length = 0;
  for (int i = 0; i < args.num_in; ++i) {
    TensorRef x = args.in[i];
    if (x.dtype != y.dtype || x.rank != y.rank) return corrupt("concat: dtypes or ranks differ");
    length += x.dims[axis];
    x.dims[axis] = y.dims[axis];
    if (!same_dims(x, y)) return corrupt("concat: dims do not match");
  }
  if (length != y.dims[axis]) return corrupt("concat: lengths do not add up");
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"concat", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::concat
