#include "base/tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

namespace kiln {
namespace {

constexpr size_t kAlignment = 64;

template <typename T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

void Tensor::Free::operator()(void* p) const { std::free(p); }

Tensor::Tensor(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  const int64_t n = shape.num_elements();
  bytes_ = n > 0 ? static_cast<size_t>(n) * dtype_bytes(dtype) : 0;
  const size_t padded = (bytes_ + kAlignment) / kAlignment * kAlignment;
  data_.reset(std::aligned_alloc(kAlignment, padded));
  if (data_) std::memset(data_.get(), 0, padded);
}

Tensor::Tensor(const Tensor& other) : Tensor(other.dtype_, other.shape_) {
  if (bytes_ > 0) std::memcpy(data_.get(), other.data_.get(), bytes_);
}

Tensor& Tensor::operator=(const Tensor& other) {
  if (this != &other) *this = Tensor(other);
  return *this;
}

bool Tensor::operator==(const Tensor& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ &&
         (bytes_ == 0 || std::memcmp(data_.get(), other.data_.get(), bytes_) == 0);
}

int64_t TensorRef::num_elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= dims[i];
  return n;
}

bool TensorRef::is_contiguous() const {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (dims[i] != 1 && strides[i] != stride) return false;
    stride *= dims[i];
  }
  return true;
}

TensorRef make_ref(const Tensor& tensor) {
  TensorRef ref;
  ref.data = const_cast<void*>(tensor.data());
  ref.dtype = tensor.dtype();
  ref.rank = static_cast<uint8_t>(tensor.shape().rank);
  int64_t strides[kMaxRank];
  contiguous_strides(tensor.shape(), strides);
  for (int i = 0; i < ref.rank; ++i) {
    ref.dims[i] = static_cast<int32_t>(tensor.shape().dims[i]);
    ref.strides[i] = static_cast<int32_t>(strides[i]);
  }
  return ref;
}

Tensor make_i64_vector(const int64_t* values, int count) {
  Tensor tensor(DType::kI64, Shape{count});
  if (count > 0) std::memcpy(tensor.data(), values, static_cast<size_t>(count) * 8);
  return tensor;
}

Tensor make_f32_scalar(float value) {
  Tensor tensor(DType::kF32, Shape{});
  *tensor.as<float>() = value;
  return tensor;
}

int64_t float_to_i64(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  if (value <= -0x1p63) return INT64_MIN;
  return static_cast<int64_t>(value);
}

double element_as_f64(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::kF32:
      return read<float>(data, index);
    case DType::kF16:
      return f16_to_f32(read<uint16_t>(data, index));
    case DType::kBF16:
      return bf16_to_f32(read<uint16_t>(data, index));
    case DType::kF64:
      return read<double>(data, index);
    case DType::kU64:
      return static_cast<double>(read<uint64_t>(data, index));
    default:
      return static_cast<double>(element_as_i64(dtype, data, index));
  }
}

int64_t element_as_i64(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::kI8:
      return read<int8_t>(data, index);
    case DType::kU8:
      return read<uint8_t>(data, index);
    case DType::kI16:
      return read<int16_t>(data, index);
    case DType::kU16:
      return read<uint16_t>(data, index);
    case DType::kI32:
      return read<int32_t>(data, index);
    case DType::kU32:
      return read<uint32_t>(data, index);
    case DType::kI64:
      return read<int64_t>(data, index);
    case DType::kU64:
      return static_cast<int64_t>(read<uint64_t>(data, index));
    case DType::kBool:
      return read<uint8_t>(data, index) != 0;
    case DType::kInvalid:
      return 0;
    default:
      return float_to_i64(element_as_f64(dtype, data, index));
  }
}

void store_f64(DType dtype, void* data, int64_t index, double value) {
  switch (dtype) {
    case DType::kF32:
      write(data, index, static_cast<float>(value));
      break;
    case DType::kF16:
      write(data, index, f32_to_f16(static_cast<float>(value)));
      break;
    case DType::kBF16:
      write(data, index, f32_to_bf16(static_cast<float>(value)));
      break;
    case DType::kF64:
      write(data, index, value);
      break;
    case DType::kBool:
      write<uint8_t>(data, index, value != 0);
      break;
    case DType::kU64:
      write(data, index,
            value >= 0x1p63 && value < 0x1p64 ? static_cast<uint64_t>(value)
                                              : static_cast<uint64_t>(float_to_i64(value)));
      break;
    default:
      store_i64(dtype, data, index, float_to_i64(value));
      break;
  }
}

void store_i64(DType dtype, void* data, int64_t index, int64_t value) {
  switch (dtype) {
    case DType::kI8:
      write(data, index, static_cast<int8_t>(value));
      break;
    case DType::kU8:
      write(data, index, static_cast<uint8_t>(value));
      break;
    case DType::kI16:
      write(data, index, static_cast<int16_t>(value));
      break;
    case DType::kU16:
      write(data, index, static_cast<uint16_t>(value));
      break;
    case DType::kI32:
      write(data, index, static_cast<int32_t>(value));
      break;
    case DType::kU32:
      write(data, index, static_cast<uint32_t>(value));
      break;
    case DType::kI64:
    case DType::kU64:
      write(data, index, value);
      break;
    case DType::kBool:
      write<uint8_t>(data, index, value != 0);
      break;
    case DType::kInvalid:
      break;
    default:
      store_f64(dtype, data, index, static_cast<double>(value));
      break;
  }
}

}  // namespace kiln
