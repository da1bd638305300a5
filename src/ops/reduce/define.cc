#include "ops/definition.h"
#include "ops/reduce/reduce.h"

namespace kiln::ops::reduce {

void reduce_any(const KernelArgs& args);
void arg_reduce_any(const KernelArgs& args);

namespace {

struct ReduceRow {
  const char* name;
  ReduceOp op;
  int axes_input_since;  // opset from which `axes` is an input
};

constexpr ReduceRow kRows[] = {
    {"ReduceSum", ReduceOp::kSum, 13},       {"ReduceMean", ReduceOp::kMean, 18},
    {"ReduceMax", ReduceOp::kMax, 18},       {"ReduceMin", ReduceOp::kMin, 18},
    {"ReduceProd", ReduceOp::kProd, 18},     {"ReduceL1", ReduceOp::kL1, 18},
    {"ReduceL2", ReduceOp::kL2, 18},         {"ReduceSumSquare", ReduceOp::kSumSquare, 18},
    {"ReduceLogSum", ReduceOp::kLogSum, 18}, {"ReduceLogSumExp", ReduceOp::kLogSumExp, 18},
};

const ReduceRow& reduce_row(const NodeView& node) {
  for (const ReduceRow& row : kRows) {
    if (node.node().op == row.name) return row;
  }
  return kRows[0];  // not reached: definitions() lists these names
}

// The axes as the node gives them (constant input or attribute); empty if it gives none.
std::vector<int64_t> read_axes(const NodeView& node) {
  if (node.opset() < reduce_row(node).axes_input_since) return node.attr_ints("axes");
  std::vector<int64_t> axes;
  if (const Tensor* input = node.constant(1)) {
    for (int64_t i = 0; i < input->num_elements(); ++i) {
      axes.push_back(element_as_i64(input->dtype(), input->data(), i));
    }
  }
  return axes;
}

// False if an axis is out of range; then *bad is that axis.
bool make_axes_mask(const NodeView& node, int32_t* mask, int64_t* bad) {
  const int rank = node.input_shape(0).rank;
  const std::vector<int64_t> axes = read_axes(node);
  *mask = 0;
  if (axes.empty()) {
    *mask = node.attr_int("noop_with_empty_axes", 0) != 0 ? 0 : (1 << rank) - 1;
    return true;
  }
  for (int64_t axis : axes) {
    int normal = 0;
    *bad = axis;
    if (!normalize_axis(axis, rank, &normal)) return false;
    *mask |= 1 << normal;
  }
  return true;
}

bool takes_number(const NodeView& node, Inference& out, bool allow_bool) {
  const DType dtype = node.input_dtype(0);
  if (is_float(dtype) || is_integer(dtype) || (allow_bool && dtype == DType::kBool)) return true;
  out.unsupported("dtype of input 0", dtype_name(dtype), "floats and integers");
  return false;
}

void infer_reduce(const NodeView& node, Inference& out) {
  const ReduceRow& row = reduce_row(node);
  const bool by_input = node.opset() >= row.axes_input_since;
  const bool allow_bool = row.op == ReduceOp::kMax || row.op == ReduceOp::kMin;
  if (!out.check_inputs(1, by_input ? 2 : 1) || !takes_number(node, out, allow_bool)) return;
  if (node.has_input(1) && out.need_constant(1, "axes") == nullptr) return;
  const Shape& in = node.input_shape(0);
  int32_t mask = 0;
  int64_t bad = 0;
  if (!make_axes_mask(node, &mask, &bad)) {
    out.invalid("axes", std::to_string(bad), strf("within [-%d, %d)", in.rank, in.rank));
    return;
  }
  Shape shape;
  for (int axis = 0; axis < in.rank; ++axis) {
    const bool reduced = (mask >> axis & 1) != 0;
    if (!reduced)
      shape.push_back(in[axis]);
    else if (node.attr_int("keepdims", 1) != 0)
      shape.push_back(1);
  }
  out.set_output(0, node.input_dtype(0), shape);
}

ParamBytes reduce_params(const NodeView& node) {
  ReduceParams params;
  int64_t bad = 0;
  make_axes_mask(node, &params.axes_mask, &bad);
  // No axes at all: the input unchanged, whatever the reduction would make of single elements.
  params.op = static_cast<int32_t>(params.axes_mask == 0 && node.input_shape(0).rank > 0 ? ReduceOp::kSum
                                                                                         : reduce_row(node).op);
  return pack_params(params);
}

// The vector kernel where the reduced axes (dims of 1 aside) are neighbours.
Status lower_reduce(const NodeView& node, Lowering& out) {
  out.inputs = {{node.node().inputs[0], nullptr}};
  out.outputs = node.node().outputs;
  out.params = reduce_params(node);
  out.kernel = "reduce_any";
  ReduceParams params;
  std::memcpy(&params, out.params.data(), sizeof(params));
  if (node.input_dtype(0) != DType::kF32 || params.op == static_cast<int32_t>(ReduceOp::kLogSumExp)) return {};
  const Shape& in = node.input_shape(0);
  int64_t sizes[3] = {1, 1, 1};
  int part = 0;  // 0 before, 1 within, 2 behind the reduced axes
  for (int axis = 0; axis < in.rank; ++axis) {
    if (in[axis] == 1) continue;
    const bool reduced = (params.axes_mask >> axis & 1) != 0;
    if (reduced && part == 2) return {};
    if (reduced)
      part = 1;
    else if (part == 1)
      part = 2;
    sizes[part] *= in[axis];
  }
  ReduceSplitParams split;
  split.op = params.op;
  split.outer = static_cast<int32_t>(sizes[0]);
  split.axis = static_cast<int32_t>(sizes[1]);
  split.inner = static_cast<int32_t>(sizes[2]);
  out.params = pack_params(split);
  out.kernel = "reduce_f32";
  return {};
}

void infer_arg(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !takes_number(node, out, false)) return;
  const Shape& in = node.input_shape(0);
  int axis = 0;
  if (!normalize_axis(node.attr_int("axis", 0), in.rank, &axis)) {
    out.invalid("axis", std::to_string(node.attr_int("axis", 0)), strf("within [-%d, %d)", in.rank, in.rank));
    return;
  }
  if (in[axis] == 0) {
    out.invalid("axis", std::to_string(axis), "an axis that is not empty");
    return;
  }
  Shape shape;
  for (int i = 0; i < in.rank; ++i) {
    if (i != axis)
      shape.push_back(in[i]);
    else if (node.attr_int("keepdims", 1) != 0)
      shape.push_back(1);
  }
  out.set_output(0, DType::kI64, shape);
}

template <typename P>
void split_at(const Shape& shape, int axis, P* params) {
  params->outer = static_cast<int32_t>(shape.product(0, axis));
  params->axis = static_cast<int32_t>(shape[axis]);
  params->inner = static_cast<int32_t>(shape.product(axis + 1, shape.rank));
}

ParamBytes arg_params(const NodeView& node) {
  ArgReduceParams params;
  int axis = 0;
  normalize_axis(node.attr_int("axis", 0), node.input_shape(0).rank, &axis);
  split_at(node.input_shape(0), axis, &params);
  params.is_min = node.node().op == "ArgMin";
  params.select_last = node.attr_int("select_last_index", 0) != 0;
  return pack_params(params);
}

constexpr OpDef reduction(const char* op, const char* summary) {
  return {op, "", 1, summary, infer_reduce, reduce_params, reduce_any, nullptr, lower_reduce};
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      reduction("ReduceSum",
                "y = sum x over axes (attribute or constant input), noop_with_empty_axes; floats, integers"),
      reduction("ReduceMean", "y = mean x over axes (attribute or constant input); floats, integers"),
      reduction("ReduceMax", "y = max x over axes (attribute or constant input); floats, integers, bool"),
      reduction("ReduceMin", "y = min x over axes (attribute or constant input); floats, integers, bool"),
      reduction("ReduceProd", "y = product of x over axes (attribute or constant input); floats, integers"),
      reduction("ReduceL1", "y = sum |x| over axes (attribute or constant input); floats, integers"),
      reduction("ReduceL2", "y = sqrt(sum x^2) over axes (attribute or constant input); floats, integers"),
      reduction("ReduceSumSquare", "y = sum x^2 over axes (attribute or constant input); floats, integers"),
      reduction("ReduceLogSum", "y = log(sum x) over axes (attribute or constant input); floats, integers"),
      reduction("ReduceLogSumExp", "y = log(sum e^x) over axes (attribute or constant input); floats, integers"),
      {"ArgMax", "", 1, "y = position of the largest along axis, select_last_index; floats, integers to i64", infer_arg,
       arg_params, arg_reduce_any, "arg_reduce_any", nullptr},
      {"ArgMin", "", 1, "y = position of the smallest along axis, select_last_index; floats, integers to i64",
       infer_arg, arg_params, arg_reduce_any, "arg_reduce_any", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::reduce
