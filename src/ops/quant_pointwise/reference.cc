#include <cmath>

#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/quant_pointwise/quant_pointwise.h"

namespace kiln::ops::quant_pointwise {

namespace {

int32_t byte_at(const TensorRef& x, int64_t offset) {
  return x.dtype == DType::kI8 ? x.as<int8_t>()[offset] : x.as<uint8_t>()[offset];
}

float clamp(float x, float low, float high) {
  const float raised = low < x ? x : low;
  return raised < high ? raised : high;
}

// Offset in `in` of the element that broadcasts to position `index` of dense `out`.
int64_t broadcast_offset(const TensorRef& in, const TensorRef& out, int64_t index) {
  int64_t offset = 0;
  for (int i = out.rank - 1; i >= 0; --i) {
    const int64_t at = index % out.dims[i];
    index /= out.dims[i];
    const int axis = i - (out.rank - in.rank);
    if (axis >= 0 && in.dims[axis] != 1) offset += at * in.strides[axis];
  }
  return offset;
}

}  // namespace

void run_table_reference(const KernelArgs& args) {
  const int64_t count = args.in[0].num_elements();
  for (int64_t i = 0; i < count; ++i) {
    args.out[0].as<uint8_t>()[i] = args.in[1].as<uint8_t>()[args.in[0].as<uint8_t>()[i]];
  }
}

void run_binary_reference(const KernelArgs& args) {
  const auto& p = args.params_as<QuantBinaryParams>();
  const int64_t count = args.out[0].num_elements();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t a = byte_at(args.in[0], broadcast_offset(args.in[0], args.out[0], i)) - p.a_zero;
    const int32_t b = byte_at(args.in[1], broadcast_offset(args.in[1], args.out[0], i)) - p.b_zero;
    float s = 0;
    if (p.function == static_cast<int32_t>(QuantFunction::kMul)) {
      s = static_cast<float>(a * b) * p.a_multiplier;
    } else {
      const float left = static_cast<float>(a) * p.a_multiplier;
      const float right = static_cast<float>(b) * p.b_multiplier;
      s = left + right;
    }
    const int32_t q = static_cast<int32_t>(clamp(std::nearbyintf(s), p.low, p.high)) + p.y_zero;
    args.out[0].as<uint8_t>()[i] = static_cast<uint8_t>(q);
  }
}

}  // namespace kiln::ops::quant_pointwise
