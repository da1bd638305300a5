#include "ops/constants.h"
#include "ops/definition.h"
#include "ops/quantize/quantize.h"

namespace kiln::ops::quantize {

void quantize_reference(const KernelArgs& args);
void dequantize_reference(const KernelArgs& args);
void dynamic_reference(const KernelArgs& args);

namespace {

// TensorProto.DataType of ONNX for what quantising gives; kInvalid for what it does not.
DType dtype_of(int64_t number) {
  switch (number) {
    case 1:
      return DType::kF32;
    case 2:
      return DType::kU8;
    case 3:
      return DType::kI8;
    case 4:
      return DType::kU16;
    case 5:
      return DType::kI16;
    case 10:
      return DType::kF16;
    case 16:
      return DType::kBF16;
    default:
      return DType::kInvalid;
  }
}

constexpr std::initializer_list<DType> kFloats = {DType::kF32, DType::kF16, DType::kBF16};

// Scale and zero point: one number, or one for each index of `axis`. Gives the axis, -1 for one number.
bool check_tables(const NodeView& node, Inference& out, int32_t* axis) {
  const Shape& x = node.input_shape(0);
  const Shape& scale = node.input_shape(1);
  *axis = -1;
  if (node.attr_int("block_size", 0) != 0) {
    out.unsupported("block_size", std::to_string(node.attr_int("block_size", 0)),
                    "0: one scale for the tensor or for each index of axis");
    return false;
  }
  if (scale.num_elements() != 1) {
    int normal = 0;
    if (!normalize_axis(node.attr_int("axis", 1), x.rank, &normal) || scale.rank != 1 || scale[0] != x[normal]) {
      out.invalid("shape of scale", print_shape(scale),
                  "one number, or one for each index of axis of the input, " + print_shape(x));
      return false;
    }
    *axis = normal;
  }
  if (node.has_input(2) && node.input_shape(2).num_elements() != scale.num_elements()) {
    out.invalid("shape of zero_point", print_shape(node.input_shape(2)), "that of scale, " + print_shape(scale));
    return false;
  }
  return true;
}

void infer_quantize(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 3)) return;
  if (!out.check_dtype(0, {DType::kF32, DType::kF16, DType::kBF16, DType::kI32}) || !out.check_dtype(1, kFloats))
    return;
  if (!out.check_dtype(2, {DType::kU8, DType::kI8, DType::kU16, DType::kI16})) return;
  if (node.attr_int("precision", 0) > 1) {
    out.unsupported("precision", std::to_string(node.attr_int("precision", 0)), "0, 1 (FLOAT)");
    return;
  }
  DType dtype = node.has_input(2) ? node.input_dtype(2) : DType::kU8;
  if (const int64_t given = node.attr_int("output_dtype", 0); given != 0) {
    const DType wanted = dtype_of(given);
    if (wanted == DType::kInvalid || is_float(wanted)) {
      out.unsupported("output_dtype", std::to_string(given), "2 (UINT8), 3 (INT8), 4 (UINT16), 5 (INT16)");
      return;
    }
    if (node.has_input(2) && wanted != dtype) {
      out.invalid("output_dtype", dtype_name(wanted), strf("%s as zero_point", dtype_name(dtype)));
      return;
    }
    dtype = wanted;
  }
  int32_t axis;
  if (check_tables(node, out, &axis)) out.set_output(0, dtype, node.input_shape(0));
}

void infer_dequantize(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 3)) return;
  if (!out.check_dtype(0, {DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kI32})) return;
  if (!out.check_dtype(1, kFloats)) return;
  if (node.has_input(2) && node.input_dtype(2) != node.input_dtype(0)) {
    out.invalid("dtype of zero_point", dtype_name(node.input_dtype(2)),
                strf("%s as the input", dtype_name(node.input_dtype(0))));
    return;
  }
  DType dtype = node.input_dtype(1);
  if (const int64_t given = node.attr_int("output_dtype", 0); given != 0) {
    dtype = dtype_of(given);
    if (!is_float(dtype)) {
      out.unsupported("output_dtype", std::to_string(given), "1 (FLOAT), 10 (FLOAT16), 16 (BFLOAT16)");
      return;
    }
  }
  int32_t axis;
  if (check_tables(node, out, &axis)) out.set_output(0, dtype, node.input_shape(0));
}

ParamBytes make_params(const NodeView& node) {
  QuantizeParams params;
  Inference ignored(node);
  check_tables(node, ignored, &params.axis);
  return pack_params(params);
}

void infer_dynamic(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !out.check_dtype(0, {DType::kF32})) return;
  set_sized_output(out, 0, DType::kU8, node.input_shape(0));
  out.set_output(1, DType::kF32, Shape{});
  out.set_output(2, DType::kU8, Shape{});
}

constexpr OpDef quantize(const char* domain, int min_opset) {
  return {"QuantizeLinear",
          domain,
          min_opset,
          "y = saturate(round(x / scale) + zero_point), halves to even, scale for the tensor or along axis; f32, f16, "
          "bf16, i32 to u8, i8, u16, i16; not block_size, 4-bit integers, 8-bit floats",
          infer_quantize,
          make_params,
          quantize_reference,
          "quantize_linear",
          nullptr,
          true};
}

constexpr OpDef dequantize(const char* domain, int min_opset) {
  return {"DequantizeLinear",
          domain,
          min_opset,
          "y = (x - zero_point) * scale, scale for the tensor or along axis; u8, i8, u16, i16, i32 to f32, f16, bf16; "
          "not block_size, 4-bit integers, 8-bit floats",
          infer_dequantize,
          make_params,
          dequantize_reference,
          "dequantize_linear",
          nullptr,
          true};
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      quantize("", 10),
      quantize("com.microsoft", 1),
      dequantize("", 10),
      dequantize("com.microsoft", 1),
      {"DynamicQuantizeLinear", "", 11,
       "u8 y = saturate(round(x / scale) + zero_point), scale = (max(x, 0) - min(x, 0)) / 255; f32", infer_dynamic,
       nullptr, dynamic_reference, "quantize_dynamic_u8", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::quantize
