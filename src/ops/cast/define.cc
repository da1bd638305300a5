#include "ops/cast/cast.h"
#include "ops/definition.h"

namespace kiln::ops::cast {

void cast_reference(const KernelArgs& args);

namespace {

constexpr const char* kSupported = "FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT8 to INT64, UINT8 to UINT64, BOOL";

// TensorProto.DataType of ONNX.
DType onnx_dtype(int64_t number) {
  static constexpr DType kTypes[] = {DType::kInvalid, DType::kF32, DType::kU8,  DType::kI8,      DType::kU16,
                                     DType::kI16,     DType::kI32, DType::kI64, DType::kInvalid, DType::kBool,
                                     DType::kF16,     DType::kF64, DType::kU32, DType::kU64,     DType::kInvalid,
                                     DType::kInvalid, DType::kBF16};
  constexpr int64_t kCount = sizeof(kTypes) / sizeof(kTypes[0]);
  return number >= 0 && number < kCount ? kTypes[number] : DType::kInvalid;
}

void infer_cast(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  if (!node.has_attr("to")) {
    out.invalid("to", "absent", "an element type");
    return;
  }
  const int64_t to = node.attr_int("to", 0);
  const DType dtype = onnx_dtype(to);
  if (dtype == DType::kInvalid) {
    out.unsupported("to", to == 8 ? "8 (STRING)" : std::to_string(to), kSupported);
    return;
  }
  out.set_output(0, dtype, node.input_shape(0));
}

void infer_cast_like(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2)) return;
  out.set_output(0, node.input_dtype(1), node.input_shape(0));
}

// CastLike's second input only gives its dtype.
Status lower(const NodeView& node, Lowering& out) {
  out.kernel = "cast_any";
  out.inputs = {{node.node().inputs[0], nullptr}};
  out.outputs = node.node().outputs;
  return {};
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Cast", "", 6, "y = x in element type `to`; every dtype but strings and 8-bit floats", infer_cast, nullptr,
       cast_reference, nullptr, lower, true},
      {"CastLike", "", 15, "y = x in the element type of input 1; every dtype but strings and 8-bit floats",
       infer_cast_like, nullptr, cast_reference, nullptr, lower, true},
  };
  return kDefs;
}

}  // namespace kiln::ops::cast
