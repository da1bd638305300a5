#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/gather/compare.h"
#include "ops/gather/gather.h"
#include "ops/index.h"
#include "ops/kernel.h"

namespace kiln::ops::gather {

// Sorts every line whole and keeps the first k.
void topk_reference(const KernelArgs& args) {
  const auto& p = args.params_as<TopKParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const TensorRef& positions = args.out[1];
  if (y.num_elements() == 0) return;
  const int64_t dim = x.dims[p.axis];
  const int64_t k = y.dims[p.axis];
  const int64_t inner = dims_product(x, p.axis + 1, x.rank);
  const int64_t lines = x.num_elements() / dim;
  std::vector<int64_t> order(static_cast<size_t>(dim));
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t begin = line / inner * dim * inner + line % inner;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return comes_before(x.dtype, p.smallest != 0, x.data, begin + a * inner, x.data, begin + b * inner);
    });
    const int64_t out_begin = line / inner * k * inner + line % inner;
    for (int64_t i = 0; i < k; ++i) {
      if (y.present()) copy_item(y, out_begin + i * inner, x, begin + order[static_cast<size_t>(i)] * inner);
      if (positions.present()) positions.as<int64_t>()[out_begin + i * inner] = order[static_cast<size_t>(i)];
    }
  }
}

}  // namespace kiln::ops::gather
