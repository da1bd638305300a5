#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/slice/slice.h"

namespace kiln::ops::slice {

void slice_reference(const KernelArgs& args) {
  const auto& p = args.params_as<SliceParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  for (int64_t o = 0; o < n; ++o) {
    int64_t index[kMaxRank];
    unravel(y, o, index);
    for (int k = 0; k < y.rank; ++k) index[k] = p.start[k] + index[k] * p.step[k];
    copy_item(y, o, x, offset_of(x, index));
  }
}

}  // namespace kiln::ops::slice
