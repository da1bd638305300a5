#include <cstring>

#include "ops/kernel.h"
#include "ops/where/where.h"

namespace kiln::ops::where {
namespace {

// Offset of the element of a dense tensor that broadcasts to row-major index `linear` of `out`.
int64_t source_index(const TensorRef& in, const TensorRef& out, int64_t linear) {
  int64_t index = 0;
  int64_t stride = 1;
  for (int axis = out.rank - 1; axis >= 0; --axis) {
    const int own = axis - (out.rank - in.rank);
    const int64_t position = linear % out.dims[axis];
    linear /= out.dims[axis];
    if (own < 0) continue;
    if (in.dims[own] != 1) index += position * stride;
    stride *= in.dims[own];
  }
  return index;
}

}  // namespace

void where_reference(const KernelArgs& args) {
  const TensorRef& y = args.out[0];
  const int64_t item = static_cast<int64_t>(dtype_bytes(y.dtype));
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    const bool condition = args.in[0].as<uint8_t>()[source_index(args.in[0], y, i)] != 0;
    const TensorRef& x = args.in[condition ? 1 : 2];
    std::memcpy(y.as<char>() + i * item, x.as<char>() + source_index(x, y, i) * item, static_cast<size_t>(item));
  }
}

}  // namespace kiln::ops::where
