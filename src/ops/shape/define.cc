#include "ops/shape/shape.h"

#include <algorithm>
#include <cmath>

#include "ops/constants.h"

namespace kiln::ops::shape {

void emit_reference(const KernelArgs& args);
void fill_reference(const KernelArgs& args);
void range_reference(const KernelArgs& args);
void eye_reference(const KernelArgs& args);

namespace {

// [start, end) of Shape, clamped to [0, rank].
void read_interval(const NodeView& node, int* start, int* end) {
  const int64_t rank = node.input_shape(0).rank;
  const auto clamp = [rank](int64_t at) {
    return static_cast<int>(std::clamp<int64_t>(at < 0 ? std::max(at, -rank) + rank : at, 0, rank));
  };
  *start = clamp(node.attr_int("start", 0));
  *end = clamp(node.attr_int("end", rank));
  if (*end < *start) *end = *start;
}

void infer_shape(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  int start = 0, end = 0;
  read_interval(node, &start, &end);
  out.set_output(0, DType::kI64, Shape{end - start});
}

void infer_size(const NodeView& node, Inference& out) {
  if (out.check_inputs(1, 1)) out.set_output(0, DType::kI64, Shape{});
}

ParamBytes tensor_bytes(const Tensor& tensor) {
  const auto* bytes = tensor.as<uint8_t>();
  return ParamBytes(bytes, bytes + tensor.bytes());
}

// The parameters are the output's bytes.
ParamBytes make_shape_params(const NodeView& node) {
  Tensor value;
  fold_shape(node, &value);
  return tensor_bytes(value);
}

// What a Constant node holds; a tensor without dtype if it holds nothing that we take.
Tensor constant_value(const NodeView& node) {
  if (TensorPtr tensor = attr_tensor(node.node(), "value")) return *tensor;
  if (node.has_attr("value_float")) return make_f32_scalar(node.attr_float("value_float", 0));
  if (node.has_attr("value_int")) {
    Tensor tensor(DType::kI64, Shape{});
    *tensor.as<int64_t>() = node.attr_int("value_int", 0);
    return tensor;
  }
  if (node.has_attr("value_ints")) {
    const std::vector<int64_t> values = node.attr_ints("value_ints");
    return make_i64_vector(values.data(), static_cast<int>(values.size()));
  }
  if (node.has_attr("value_floats")) {
    const std::vector<float> values = attr_floats(node.node(), "value_floats");
    Tensor tensor(DType::kF32, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.as<float>());
    return tensor;
  }
  return {};
}

void infer_constant(const NodeView& node, Inference& out) {
  if (!out.check_inputs(0, 0)) return;
  const Tensor value = constant_value(node);
  if (value.dtype() == DType::kInvalid) {
    const char* given = "none";
    for (const char* name : {"sparse_value", "value_string", "value_strings", "value"}) {
      if (node.has_attr(name)) given = name;
    }
    out.unsupported("value attribute", given, "value, value_float, value_floats, value_int, value_ints");
    return;
  }
  out.set_output(0, value.dtype(), value.shape());
}

ParamBytes make_constant_params(const NodeView& node) { return tensor_bytes(constant_value(node)); }

Tensor fill_value(const NodeView& node) {
  if (TensorPtr tensor = attr_tensor(node.node(), "value")) return *tensor;
  return make_f32_scalar(0);
}

void infer_constant_of_shape(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  const Tensor* tensor = out.need_constant(0, "shape");
  if (tensor == nullptr) return;
  const std::vector<int64_t> dims = constant_ints(*tensor);
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    out.unsupported("shape", print_ints(dims), strf("up to %d dims", kMaxRank));
    return;
  }
  Shape shape;
  for (int64_t dim : dims) {
    if (dim < 0) {
      out.invalid("shape", print_ints(dims), "dims >= 0");
      return;
    }
    shape.push_back(dim);
  }
  const Tensor value = fill_value(node);
  if (value.num_elements() != 1) {
    out.invalid("value", print_shape(value.shape()), "one element");
    return;
  }
  set_sized_output(out, 0, value.dtype(), shape);
}

ParamBytes make_fill_params(const NodeView& node) { return tensor_bytes(fill_value(node)); }

// Number of elements from start to limit by delta; -1 if there is no such number.
int64_t range_count(const NodeView& node) {
  const DType dtype = node.input_dtype(0);
  const Tensor* start = node.constant(0);
  const Tensor* limit = node.constant(1);
  const Tensor* delta = node.constant(2);
  double count = 0;
  if (is_float(dtype)) {
    const double step = element_as_f64(dtype, delta->data(), 0);
    count = std::ceil((element_as_f64(dtype, limit->data(), 0) - element_as_f64(dtype, start->data(), 0)) / step);
    if (step == 0 || !std::isfinite(count)) return -1;
  } else {
    const int64_t first = element_as_i64(dtype, start->data(), 0);
    const int64_t end = element_as_i64(dtype, limit->data(), 0);
    const int64_t step = element_as_i64(dtype, delta->data(), 0);
    if (step == 0) return -1;
    // Exact as long as the difference is below 2^53; beyond that the count is refused for its size anyway.
    int64_t difference = 0;
    if (__builtin_sub_overflow(end, first, &difference)) return -1;
    if ((difference > 0) != (step > 0) || difference == 0) return 0;
    count = static_cast<double>((step > 0 ? difference - 1 : difference + 1) / step) + 1;
  }
  if (count > INT32_MAX) return -1;
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

void infer_range(const NodeView& node, Inference& out) {
  if (!out.check_inputs(3, 3)) return;
  static constexpr const char* kNames[] = {"start", "limit", "delta"};
  for (int i = 0; i < 3; ++i) {
    const Tensor* tensor = out.need_constant(i, kNames[i]);
    if (tensor == nullptr) return;
    if (tensor->num_elements() != 1 || tensor->dtype() != node.input_dtype(0)) {
      out.invalid(kNames[i], dtype_name(tensor->dtype()) + print_shape(tensor->shape()), "scalars of one dtype");
      return;
    }
  }
  const int64_t count = range_count(node);
  if (count < 0) {
    out.invalid("delta", std::to_string(element_as_f64(node.input_dtype(0), node.constant(2)->data(), 0)),
                "a step that reaches the limit in fewer than 2^31 elements");
    return;
  }
  out.set_output(0, node.input_dtype(0), Shape{count});
}

// ONNX's numbers of element types, as the attribute `dtype` has them.
DType onnx_dtype(int64_t number) {
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
    case 6:
      return DType::kI32;
    case 7:
      return DType::kI64;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kF16;
    case 11:
      return DType::kF64;
    case 12:
      return DType::kU32;
    case 13:
      return DType::kU64;
    case 16:
      return DType::kBF16;
    default:
      return DType::kInvalid;
  }
}

void infer_eye(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  if (node.input_shape(0).rank != 2) {
    out.invalid("rank", std::to_string(node.input_shape(0).rank), "2");
    return;
  }
  DType dtype = node.input_dtype(0);
  if (node.has_attr("dtype")) dtype = onnx_dtype(node.attr_int("dtype", 0));
  if (dtype == DType::kInvalid) {
    out.unsupported("dtype", std::to_string(node.attr_int("dtype", 0)), "floats, integers, bool");
    return;
  }
  out.set_output(0, dtype, node.input_shape(0));
}

ParamBytes make_eye_params(const NodeView& node) { return pack_params(node.attr_int("k", 0)); }

// The input counts for its dims only.
Status lower_eye(const NodeView& node, Lowering& out) {
  return lower_to(node, out, "eye_like", make_eye_params(node), {});
}

}  // namespace

bool fold_shape(const NodeView& node, Tensor* out) {
  if (!node.node().domain.empty() || !node.has_input(0) || !node.input_shape(0).is_static()) return false;
  const Shape& shape = node.input_shape(0);
  if (node.node().op == "Shape") {
    int start = 0, end = 0;
    read_interval(node, &start, &end);
    *out = make_i64_vector(shape.dims + start, end - start);
    return true;
  }
  if (node.node().op == "Size") {
    *out = Tensor(DType::kI64, Shape{});
    *out->as<int64_t>() = shape.num_elements();
    return true;
  }
  return false;
}

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Shape", "", 1, "dims of a tensor (start, end); folds", infer_shape, make_shape_params, emit_reference, nullptr,
       nullptr},
      {"Size", "", 1, "number of elements; folds", infer_size, make_shape_params, emit_reference, nullptr, nullptr},
      {"Constant", "", 1, "value, value_float, value_floats, value_int, value_ints; folds", infer_constant,
       make_constant_params, emit_reference, nullptr, nullptr},
      {"ConstantOfShape", "", 9, "a tensor filled with `value`; folds", infer_constant_of_shape, make_fill_params,
       fill_reference, nullptr, nullptr},
      {"Range", "", 11, "start, start + delta, … before limit; folds", infer_range, nullptr, range_reference, nullptr,
       nullptr},
      {"EyeLike", "", 9, "ones on the k-th diagonal; k, dtype; floats, integers, bool", infer_eye, make_eye_params,
       eye_reference, "eye_like", lower_eye},
  };
  return kDefs;
}

}  // namespace kiln::ops::shape
