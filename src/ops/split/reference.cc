#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/split/split.h"

namespace kiln::ops::split {

void split_reference(const KernelArgs& args) {
  const int32_t axis = args.params_as<SplitParams>().axis;
  const TensorRef& x = args.in[0];
  for (int i = 0; i < args.num_out; ++i) {
    const TensorRef& y = args.out[i];
    if (!y.present()) continue;
    const int64_t n = y.num_elements();
    for (int64_t k = 0; k < n; ++k) {
      int64_t index[kMaxRank];
      unravel(y, k, index);
      index[axis] += split_begins(args.params)[i];
      copy_item(y, k, x, offset_of(x, index));
    }
  }
}

}  // namespace kiln::ops::split
