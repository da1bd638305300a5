// Decodes the TensorProtos inside a model; the rest of the world uses onnx/tensor.h.
#pragma once

#include <onnx.pb.h>

#include "base/tensor.h"
#include "compile/compile.h"

namespace kiln {

// kInvalid if tilekiln has no such element type.
DType dtype_from_onnx(int data_type);

// "FLOAT8E4M3FN", "STRING", …; "99" if the number is unknown.
std::string onnx_type_name(int data_type);

// Checks dims and the number of elements before anything is allocated: no tensor is larger than its bytes in the file.
Result<Tensor> decode_tensor(const onnx::TensorProto& proto, const FileReader& files);

// The `location` of a tensor with external data, "" if it has none.
std::string external_location(const onnx::TensorProto& proto);

}  // namespace kiln
