#include <algorithm>

#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/quantize/quantize.h"

namespace kiln::ops::quantize {
namespace {

float float_at(const TensorRef& ref, int64_t index) {
  return static_cast<float>(element_as_f64(ref.dtype, ref.data, index));
}

// Which element of scale and zero point belongs to element i of x.
int64_t table_index(const TensorRef& x, int32_t axis, int64_t i) {
  if (axis < 0) return 0;
  return i / dims_product(x, axis + 1, x.rank) % x.dims[axis];
}

bool has_zero_point(const KernelArgs& args) { return args.num_in > 2 && args.in[2].present(); }

}  // namespace

void quantize_reference(const KernelArgs& args) {
  const auto& p = args.params_as<QuantizeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const IntegerRange range = integer_range(y.dtype);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t k = table_index(x, p.axis, i);
    const int64_t zero_point = has_zero_point(args) ? element_as_i64(y.dtype, args.in[2].data, k) : 0;
    store_i64(y.dtype, y.data, i, round_to_range(float_at(x, i) / float_at(args.in[1], k), zero_point, range));
  }
}

void dequantize_reference(const KernelArgs& args) {
  const auto& p = args.params_as<QuantizeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t k = table_index(x, p.axis, i);
    const int64_t zero_point = has_zero_point(args) ? element_as_i64(x.dtype, args.in[2].data, k) : 0;
    const float difference = static_cast<float>(element_as_i64(x.dtype, x.data, i) - zero_point);
    store_f64(y.dtype, y.data, i, difference * float_at(args.in[1], k));
  }
}

void dynamic_reference(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  float min = 0;
  float max = 0;
  const int64_t n = x.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    min = std::min(min, x.as<float>()[i]);
    max = std::max(max, x.as<float>()[i]);
  }
  const DynamicScale dynamic = dynamic_scale(min, max);
  for (int64_t i = 0; i < n; ++i) {
    args.out[0].as<uint8_t>()[i] =
        static_cast<uint8_t>(round_to_range(x.as<float>()[i] / dynamic.scale, dynamic.zero_point, {0, 255}));
  }
  *args.out[1].as<float>() = dynamic.scale;
  *args.out[2].as<uint8_t>() = dynamic.zero_point;
}

}  // namespace kiln::ops::quantize
