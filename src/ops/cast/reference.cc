#include "ops/cast/cast.h"
#include "ops/kernel.h"

namespace kiln::ops::cast {

void cast_reference(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (is_float(x.dtype)) {
      store_f64(y.dtype, y.data, i, element_as_f64(x.dtype, x.data, i));
    } else if (x.dtype == DType::kU64 && is_float(y.dtype)) {
      store_f64(y.dtype, y.data, i, element_as_f64(x.dtype, x.data, i));
    } else {
      store_i64(y.dtype, y.data, i, element_as_i64(x.dtype, x.data, i));
    }
  }
}

}  // namespace kiln::ops::cast
