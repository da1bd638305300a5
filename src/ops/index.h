// Index tuples of tensors: what plain loops over any rank need.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/tensor.h"

namespace kiln {

// The index tuple of the `flat`th element in row-major order. No dim may be 0.
inline void unravel(const TensorRef& ref, int64_t flat, int64_t index[kMaxRank]) {
  for (int i = ref.rank - 1; i >= 0; --i) {
    index[i] = flat % ref.dims[i];
    flat /= ref.dims[i];
  }
}

// Where an index tuple lies, in elements.
inline int64_t offset_of(const TensorRef& ref, const int64_t index[kMaxRank]) {
  int64_t offset = 0;
  for (int i = 0; i < ref.rank; ++i) offset += index[i] * ref.strides[i];
  return offset;
}

// Product of dims [begin, end).
inline int64_t dims_product(const TensorRef& ref, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= ref.dims[i];
  return n;
}

inline const char* item_at(const TensorRef& ref, int64_t offset) {
  return static_cast<const char*>(ref.data) + offset * static_cast<int64_t>(dtype_bytes(ref.dtype));
}
inline char* mutable_item_at(const TensorRef& ref, int64_t offset) {
  return static_cast<char*>(ref.data) + offset * static_cast<int64_t>(dtype_bytes(ref.dtype));
}

// out[out_offset] = in[in_offset], whatever the type.
inline void copy_item(const TensorRef& out, int64_t out_offset, const TensorRef& in, int64_t in_offset) {
  std::memcpy(mutable_item_at(out, out_offset), item_at(in, in_offset), dtype_bytes(in.dtype));
}

}  // namespace kiln
