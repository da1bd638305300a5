#include "ops/concat/concat.h"
#include "ops/index.h"
#include "ops/kernel.h"

namespace kiln::ops::concat {

void concat_reference(const KernelArgs& args) {
  const int32_t axis = args.params_as<ConcatParams>().axis;
  const TensorRef& y = args.out[0];
  int64_t begin = 0;
  for (int i = 0; i < args.num_in; ++i) {
    const TensorRef& x = args.in[i];
    const int64_t n = x.num_elements();
    for (int64_t k = 0; k < n; ++k) {
      int64_t index[kMaxRank];
      unravel(x, k, index);
      index[axis] += begin;
      copy_item(y, offset_of(y, index), x, k);
    }
    begin += x.dims[axis];
  }
}

}  // namespace kiln::ops::concat
