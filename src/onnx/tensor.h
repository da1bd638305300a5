// Reads a TensorProto file (.pb), as ONNX's test data has them.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/tensor.h"

namespace kiln {

// kNotAModel if the bytes are no TensorProto, kUnsupported for strings and complex numbers, kInvalidModel if the
// elements do not go with the dims. External data is not followed.
Result<Tensor> read_tensor_proto(std::span<const uint8_t> bytes);

}  // namespace kiln
