#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/transpose/transpose.h"

namespace kiln::ops::transpose {

// out[i0, i1, …] = in[j] with j[perm[k]] = i[k]
void transpose_reference(const KernelArgs& args) {
  const auto& p = args.params_as<TransposeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  for (int64_t o = 0; o < n; ++o) {
    int64_t index[kMaxRank], from[kMaxRank];
    unravel(y, o, index);
    for (int k = 0; k < y.rank; ++k) from[p.perm[k]] = index[k];
    copy_item(y, o, x, offset_of(x, from));
  }
}

}  // namespace kiln::ops::transpose
