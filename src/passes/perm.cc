#include "passes/perm.h"

#include <cstring>

namespace kiln {

Perm identity_perm(int rank) {
  Perm perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  return perm;
}

bool is_identity(const Perm& perm) { return perm == identity_perm(static_cast<int>(perm.size())); }

Perm inverse(const Perm& perm) {
  Perm inverted(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverted[static_cast<size_t>(perm[i])] = static_cast<int>(i);
  return inverted;
}

Perm compose(const Perm& first, const Perm& second) {
  Perm both;
  for (int axis : second) both.push_back(first[static_cast<size_t>(axis)]);
  return both;
}

Shape permute(const Shape& shape, const Perm& perm) {
  Shape out;
  for (int axis : perm) out.push_back(shape[axis]);
  return out;
}

Tensor permute(const Tensor& tensor, const Perm& perm) {
  const Shape shape = permute(tensor.shape(), perm);
  Tensor out(tensor.dtype(), shape);
  int64_t from_strides[kMaxRank];
  contiguous_strides(tensor.shape(), from_strides);
  const int rank = shape.rank;
  const size_t item = dtype_bytes(tensor.dtype());
  const int64_t n = tensor.num_elements();
  int64_t index[kMaxRank] = {};
  int64_t from = 0;
  const char* source = static_cast<const char*>(tensor.data());
  char* target = static_cast<char*>(out.data());
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(target + static_cast<size_t>(i) * item, source + static_cast<size_t>(from) * item, item);
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t stride = from_strides[perm[static_cast<size_t>(axis)]];
      from += stride;
      if (++index[axis] < shape[axis]) break;
      from -= stride * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

bool keeps_order(const Shape& shape, const Perm& perm) {
  int last = -1;
  for (int axis : perm) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

Perm perm_of(const NodeView& node) {
  Perm perm;
  for (int64_t axis : node.attr_ints("perm")) perm.push_back(static_cast<int>(axis));
  if (!node.has_attr("perm")) {
    for (int i = node.input_shape(0).rank - 1; i >= 0; --i) perm.push_back(i);
  }
  return perm;
}

}  // namespace kiln
