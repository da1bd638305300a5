#include "ops/index.h"
#include "ops/kernel.h"

namespace kiln::ops::expand {

// out[i0, i1, …] = in[i0 mod d0, i1 mod d1, …], with the input's dims aligned to the last of the output.
void repeat_reference(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  for (int64_t o = 0; o < n; ++o) {
    int64_t index[kMaxRank], from[kMaxRank];
    unravel(y, o, index);
    for (int k = 0; k < x.rank; ++k) from[k] = index[k + y.rank - x.rank] % x.dims[k];
    copy_item(y, o, x, offset_of(x, from));
  }
}

}  // namespace kiln::ops::expand
