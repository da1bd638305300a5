// Shape: up to eight dimensions kept inline, with the arithmetic that shape rules need.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace kiln {

constexpr int kMaxRank = 8;

// A dimension is >= 0; kUnknownDim stands for one that is not known yet (only before shapes are inferred).
constexpr int64_t kUnknownDim = -1;

struct Shape {
  int rank = 0;
  int64_t dims[kMaxRank] = {};

  Shape() = default;
  Shape(std::initializer_list<int64_t> list);

  int64_t operator[](int axis) const { return dims[axis]; }
  int64_t& operator[](int axis) { return dims[axis]; }
  void push_back(int64_t dim) { dims[rank++] = dim; }  // the caller keeps rank <= kMaxRank
  bool operator==(const Shape& other) const;

  // Product of all dims (1 for a scalar); kUnknownDim if a dim is unknown; -2 if it does not fit 2^40.
  int64_t num_elements() const;
  // Product of dims [begin, end).
  int64_t product(int begin, int end) const;
  bool is_static() const;
};

// "[1, 3, 224, 224]"; an unknown dim prints as "?".
std::string print_shape(const Shape& shape);

// Row-major strides in elements.
void contiguous_strides(const Shape& shape, int64_t strides[kMaxRank]);

// NumPy-style broadcasting; false if the shapes do not go together.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape* out);

// Turns a negative axis into a positive one; false if axis is outside [-rank, rank).
bool normalize_axis(int64_t axis, int rank, int* out);

}  // namespace kiln
