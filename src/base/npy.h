// NumPy's .npy files (format 1.0 to 3.0, C order): how tensors come from and go to disk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"

namespace kiln {

// f16, f32, f64, integers and bool as they are; bfloat16, which NumPy has not, as f32.
std::vector<uint8_t> write_npy(const Tensor& tensor);

// kNotAModel if it is no .npy file, kUnsupported for other dtypes, big-endian and Fortran order, kTruncated if elements
// miss.
Result<Tensor> read_npy(std::span<const uint8_t> bytes);

}  // namespace kiln
