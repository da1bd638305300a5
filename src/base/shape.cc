#include "base/shape.h"

namespace kiln {

Shape::Shape(std::initializer_list<int64_t> list) {
  for (int64_t dim : list) {
    if (rank < kMaxRank) push_back(dim);
  }
}

bool Shape::operator==(const Shape& other) const {
  if (rank != other.rank) return false;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] != other.dims[i]) return false;
  }
  return true;
}

int64_t Shape::num_elements() const { return product(0, rank); }

int64_t Shape::product(int begin, int end) const {
  constexpr int64_t kLimit = int64_t{1} << 40;
  int64_t n = 1;
  bool empty = false;
  for (int i = begin; i < end; ++i) {
    if (dims[i] == kUnknownDim) return kUnknownDim;
    if (dims[i] == 0) empty = true;
  }
  if (empty) return 0;
  for (int i = begin; i < end; ++i) {
    if (dims[i] < 0 || dims[i] > kLimit / n) return -2;
    n *= dims[i];
  }
  return n;
}

bool Shape::is_static() const {
  for (int i = 0; i < rank; ++i) {
    if (dims[i] < 0) return false;
  }
  return true;
}

std::string print_shape(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) {
    if (i > 0) text += ", ";
    text += shape.dims[i] < 0 ? "?" : std::to_string(shape.dims[i]);
  }
  return text + "]";
}

void contiguous_strides(const Shape& shape, int64_t strides[kMaxRank]) {
  int64_t stride = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape.dims[i];
  }
}

bool broadcast_shapes(const Shape& a, const Shape& b, Shape* out) {
  Shape result;
  result.rank = a.rank > b.rank ? a.rank : b.rank;
  for (int i = 0; i < result.rank; ++i) {
    const int ia = i - (result.rank - a.rank);
    const int ib = i - (result.rank - b.rank);
    const int64_t da = ia < 0 ? 1 : a.dims[ia];
    const int64_t db = ib < 0 ? 1 : b.dims[ib];
    if (da != db && da != 1 && db != 1) return false;
    result.dims[i] = da == 1 ? db : da;
  }
  *out = result;
  return true;
}

bool normalize_axis(int64_t axis, int rank, int* out) {
  if (axis < -rank || axis >= rank) return false;
  *out = static_cast<int>(axis < 0 ? axis + rank : axis);
  return true;
}

}  // namespace kiln
