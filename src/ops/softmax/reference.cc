#include <cmath>

#include "ops/kernel.h"
#include "ops/softmax/softmax.h"

namespace kiln::ops::softmax {

// Any float dtype, sums in double.
void softmax_reference(const KernelArgs& args) {
  const auto& p = args.params_as<SoftmaxParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  for (int64_t o = 0; o < p.outer; ++o) {
    for (int64_t i = 0; i < p.inner; ++i) {
      const int64_t base = o * p.axis * p.inner + i;
      double max = -INFINITY;
      for (int64_t a = 0; a < p.axis; ++a) max = std::fmax(max, element_as_f64(x.dtype, x.data, base + a * p.inner));
      double sum = 0;
      for (int64_t a = 0; a < p.axis; ++a) sum += std::exp(element_as_f64(x.dtype, x.data, base + a * p.inner) - max);
      for (int64_t a = 0; a < p.axis; ++a) {
        const double shifted = element_as_f64(x.dtype, x.data, base + a * p.inner) - max;
        store_f64(y.dtype, y.data, base + a * p.inner, p.is_log ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    }
  }
}

}  // namespace kiln::ops::softmax
