#include "ops/definition.h"
#include "ops/softmax/softmax.h"

namespace kiln::ops::softmax {

void softmax_reference(const KernelArgs& args);

namespace {

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !out.check_dtype(0, {DType::kF32, DType::kF16, DType::kF64})) return;
  const Shape& shape = node.input_shape(0);
  const int64_t axis = node.attr_int("axis", node.opset() < 13 ? 1 : -1);
  int normal = 0;
  // Before opset 13 axis = rank is allowed: everything is outer.
  if (!normalize_axis(axis, shape.rank, &normal) && !(node.opset() < 13 && axis == shape.rank)) {
    out.invalid("axis", std::to_string(axis), strf("within [-%d, %d)", shape.rank, shape.rank));
    return;
  }
  out.set_output(0, node.input_dtype(0), shape);
}

ParamBytes make_params(const NodeView& node) {
  const Shape& shape = node.input_shape(0);
  int axis = shape.rank;
  normalize_axis(node.attr_int("axis", node.opset() < 13 ? 1 : -1), shape.rank, &axis);
  const int axis_end = node.opset() < 13 ? shape.rank : axis + 1;
  SoftmaxParams params;
  params.outer = static_cast<int32_t>(shape.product(0, axis));
  params.axis = static_cast<int32_t>(shape.product(axis, axis_end));
  params.inner = static_cast<int32_t>(shape.product(axis_end, shape.rank));
  params.is_log = node.node().op == "LogSoftmax";
  return pack_params(params);
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Softmax", "", 1, "y = exp(x - max) / sum(exp(x - max)) along axis; f32 (f16, f64 fold or run plainly)", infer,
       make_params, softmax_reference, "softmax_f32", nullptr},
      {"LogSoftmax", "", 1, "y = log(softmax(x)) along axis; f32 (f16, f64 fold or run plainly)", infer, make_params,
       softmax_reference, "softmax_f32", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::softmax
