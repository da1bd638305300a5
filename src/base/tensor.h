// Tensor owns elements; TensorRef points at somebody else's. Both are row-major unless strides say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "base/shape.h"

namespace kiln {

// What kernels get: a pointer, dims and strides in elements. The runtime fills it once at load.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::kInvalid;
  uint8_t rank = 0;
  int32_t dims[kMaxRank] = {};
  int32_t strides[kMaxRank] = {};  // in elements; row-major unless the kernel declares strided operands

  bool present() const { return dtype != DType::kInvalid; }  // an optional operand may be absent
  int64_t num_elements() const;
  bool is_contiguous() const;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A dense tensor that owns its bytes (64-byte aligned, zero-initialised).
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, const Shape& shape);
  Tensor(const Tensor& other);
  Tensor& operator=(const Tensor& other);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t bytes() const { return bytes_; }
  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  template <typename T>
  T* as() {
    return static_cast<T*>(data());
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data());
  }

  // Same bytes under another shape; the element counts must agree.
  void reshape(const Shape& shape) { shape_ = shape; }

  // The same bits in the same dtype and shape.
  bool operator==(const Tensor& other) const;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  DType dtype_ = DType::kInvalid;
  Shape shape_;
  size_t bytes_ = 0;
  std::unique_ptr<void, Free> data_;
};

using TensorPtr = std::shared_ptr<const Tensor>;

// Points at a Tensor's elements (kernels never write through an input).
TensorRef make_ref(const Tensor& tensor);

// A one-element or 1-D constant: make_vector<int64_t>(DType::kI64, {1, 2}).
Tensor make_i64_vector(const int64_t* values, int count);
Tensor make_f32_scalar(float value);

// Towards zero. What int64 cannot hold, for which C++ defines no conversion, saturates; NaN gives 0.
int64_t float_to_i64(double value);
// Element `index` (row-major, dense) converted; integers beyond 2^53 lose precision in the f64 form.
double element_as_f64(DType dtype, const void* data, int64_t index);
int64_t element_as_i64(DType dtype, const void* data, int64_t index);
// Stores with the conversion that ONNX Cast has: integers wrap, floats round to nearest even, bool is != 0.
void store_f64(DType dtype, void* data, int64_t index, double value);
void store_i64(DType dtype, void* data, int64_t index, int64_t value);

}  // namespace kiln
