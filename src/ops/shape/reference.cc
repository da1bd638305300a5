#include <cstring>

#include "ops/kernel.h"

namespace kiln::ops::shape {

// The parameters are the output's bytes (Shape, Size, Constant).
void emit_reference(const KernelArgs& args) {
  if (args.params_bytes > 0) std::memcpy(args.out[0].data, args.params, args.params_bytes);
}

// The parameters are the bytes of one element (ConstantOfShape).
void fill_reference(const KernelArgs& args) {
  const int64_t n = args.out[0].num_elements();
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(static_cast<char*>(args.out[0].data) + i * static_cast<int64_t>(args.params_bytes), args.params,
                args.params_bytes);
  }
}

// out[i] = start + i * delta
void range_reference(const KernelArgs& args) {
  const TensorRef& start = args.in[0];
  const TensorRef& delta = args.in[2];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(y.dtype)) {
      const double step = element_as_f64(delta.dtype, delta.data, 0);
      store_f64(y.dtype, y.data, i, element_as_f64(start.dtype, start.data, 0) + static_cast<double>(i) * step);
    } else {
      const int64_t step = element_as_i64(delta.dtype, delta.data, 0);
      store_i64(y.dtype, y.data, i, element_as_i64(start.dtype, start.data, 0) + i * step);
    }
  }
}

// The parameter is k: out[r, c] = c - r == k.
void eye_reference(const KernelArgs& args) {
  const int64_t k = args.params_as<int64_t>();
  const TensorRef& y = args.out[0];
  for (int64_t r = 0; r < y.dims[0]; ++r) {
    for (int64_t c = 0; c < y.dims[1]; ++c) store_i64(y.dtype, y.data, r * y.dims[1] + c, c - r == k);
  }
}

}  // namespace kiln::ops::shape
