#include <algorithm>

#include "ops/constants.h"
#include "ops/gather/gather.h"

namespace kiln::ops::gather {

void gather_reference(const KernelArgs& args);
void gather_elements_reference(const KernelArgs& args);
void gather_nd_reference(const KernelArgs& args);
void scatter_elements_reference(const KernelArgs& args);
void scatter_nd_reference(const KernelArgs& args);
void one_hot_reference(const KernelArgs& args);
void nonzero_reference(const KernelArgs& args);
void topk_reference(const KernelArgs& args);
void trilu_reference(const KernelArgs& args);
void cumsum_reference(const KernelArgs& args);

namespace {

// Attribute `axis` made positive within `rank`; -1 after a problem.
int read_axis(const NodeView& node, Inference* out, int64_t fallback, int rank) {
  const int64_t axis = node.attr_int("axis", fallback);
  int normal = 0;
  if (normalize_axis(axis, rank, &normal)) return normal;
  if (out) out->invalid("axis", std::to_string(axis), strf("within [-%d, %d)", rank, rank));
  return -1;
}

int read_reduction(const NodeView& node, Inference* out) {
  static constexpr const char* kNames[] = {"none", "add", "mul", "max", "min"};
  const std::string name = node.attr_string("reduction", "none");
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) return i;
  }
  if (out) out->unsupported("reduction", name, "none, add, mul, max, min");
  return -1;
}

// --- Gather ---

void infer_gather(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2) || !out.check_dtype(1, {DType::kI32, DType::kI64})) return;
  const Shape& data = node.input_shape(0);
  const Shape& indices = node.input_shape(1);
  const int axis = read_axis(node, &out, 0, data.rank);
  if (axis < 0) return;
  if (data.rank + indices.rank - 1 > kMaxRank) {
    out.unsupported("rank", std::to_string(data.rank + indices.rank - 1), strf("up to %d", kMaxRank));
    return;
  }
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(data[i]);
  for (int i = 0; i < indices.rank; ++i) result.push_back(indices[i]);
  for (int i = axis + 1; i < data.rank; ++i) result.push_back(data[i]);
  if (data[axis] == 0 && result.num_elements() != 0) {
    out.invalid("indices", print_shape(indices), "none, since the axis is empty");
    return;
  }
  if (const Tensor* constant = node.constant(1)) {
    for (int64_t index : constant_ints(*constant)) {
      if (index < -data[axis] || index >= data[axis]) {
        out.invalid("indices", std::to_string(index), strf("within [-%d, %d)", int(data[axis]), int(data[axis])));
        return;
      }
    }
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

ParamBytes make_axis_params(const NodeView& node) {
  AxisParams params;
  params.axis = read_axis(node, nullptr, 0, node.input_shape(0).rank);
  params.reduction = std::max(0, read_reduction(node, nullptr));
  return pack_params(params);
}

// The dims of `inner` are at most those of `outer`, but for one axis.
bool fits_beside_axis(const Shape& inner, const Shape& outer, int axis) {
  if (inner.rank != outer.rank) return false;
  for (int i = 0; i < inner.rank; ++i) {
    if (i != axis && inner[i] > outer[i]) return false;
  }
  return true;
}

void infer_gather_elements(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2) || !out.check_dtype(1, {DType::kI32, DType::kI64})) return;
  const Shape& data = node.input_shape(0);
  const Shape& indices = node.input_shape(1);
  const int axis = read_axis(node, &out, 0, data.rank);
  if (axis < 0) return;
  if (!fits_beside_axis(indices, data, axis) || (data[axis] == 0 && indices.num_elements() != 0)) {
    out.invalid("shape of indices", print_shape(indices), "dims within those of " + print_shape(data));
    return;
  }
  out.set_output(0, node.input_dtype(0), indices);
}

void infer_scatter_elements(const NodeView& node, Inference& out) {
  if (!out.check_inputs(3, 3) || !out.check_dtype(1, {DType::kI32, DType::kI64})) return;
  const Shape& data = node.input_shape(0);
  const Shape& indices = node.input_shape(1);
  const int axis = read_axis(node, &out, 0, data.rank);
  if (axis < 0 || read_reduction(node, &out) < 0) return;
  if (!fits_beside_axis(indices, data, axis) || !(node.input_shape(2) == indices) ||
      node.input_dtype(2) != node.input_dtype(0)) {
    out.invalid("shape of indices", print_shape(indices),
                "dims within those of " + print_shape(data) + ", updates of the same shape and of the data's dtype");
    return;
  }
  out.set_output(0, node.input_dtype(0), data);
}

// --- GatherND, ScatterND ---

void infer_gather_nd(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2) || !out.check_dtype(1, {DType::kI32, DType::kI64})) return;
  const Shape& data = node.input_shape(0);
  const Shape& indices = node.input_shape(1);
  const int64_t batch = node.attr_int("batch_dims", 0);
  if (batch < 0 || batch >= std::min(data.rank, indices.rank)) {
    out.invalid("batch_dims", std::to_string(batch), "at least 0 and less than both ranks");
    return;
  }
  const int64_t depth = indices[indices.rank - 1];
  bool valid = depth >= 1 && batch + depth <= data.rank;
  for (int i = 0; valid && i < batch; ++i) valid = data[i] == indices[i];
  if (!valid) {
    out.invalid("shape of indices", print_shape(indices), "batch dims and a last dim that fit " + print_shape(data));
    return;
  }
  if (indices.rank - 1 + data.rank - batch - depth > kMaxRank) {
    out.unsupported("rank", std::to_string(indices.rank - 1 + data.rank - batch - depth), strf("up to %d", kMaxRank));
    return;
  }
  Shape result;
  for (int i = 0; i + 1 < indices.rank; ++i) result.push_back(indices[i]);
  for (int i = static_cast<int>(batch + depth); i < data.rank; ++i) result.push_back(data[i]);
  if (data.num_elements() == 0 && result.num_elements() != 0) {
    out.invalid("indices", print_shape(indices), "none, since the data is empty");
    return;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

void infer_scatter_nd(const NodeView& node, Inference& out) {
  if (!out.check_inputs(3, 3) || !out.check_dtype(1, {DType::kI32, DType::kI64})) return;
  if (read_reduction(node, &out) < 0) return;
  const Shape& data = node.input_shape(0);
  const Shape& indices = node.input_shape(1);
  const Shape& updates = node.input_shape(2);
  const int64_t depth = indices.rank > 0 ? indices[indices.rank - 1] : 0;
  bool valid = indices.rank > 0 && depth >= 1 && depth <= data.rank &&
               updates.rank == indices.rank - 1 + data.rank - static_cast<int>(depth) &&
               node.input_dtype(2) == node.input_dtype(0);
  for (int i = 0; valid && i < updates.rank; ++i) {
    valid = updates[i] == (i < indices.rank - 1 ? indices[i] : data[i - (indices.rank - 1) + static_cast<int>(depth)]);
  }
  if (!valid) {
    out.invalid("shape of indices", print_shape(indices),
                "a last dim within the rank of " + print_shape(data) + " and updates " + print_shape(updates) +
                    " to match, of the data's dtype");
    return;
  }
  out.set_output(0, node.input_dtype(0), data);
}

ParamBytes make_nd_params(const NodeView& node) {
  NdParams params;
  params.batch_dims = static_cast<int32_t>(node.attr_int("batch_dims", 0));
  params.reduction = std::max(0, read_reduction(node, nullptr));
  return pack_params(params);
}

// --- OneHot ---

void infer_one_hot(const NodeView& node, Inference& out) {
  if (!out.check_inputs(3, 3)) return;
  const Tensor* depth = out.need_constant(1, "depth");
  if (depth == nullptr) return;
  const Shape& indices = node.input_shape(0);
  if (depth->num_elements() != 1 || node.input_shape(2).num_elements() != 2) {
    out.invalid("depth or values", print_shape(node.input_shape(2)), "one number and two values");
    return;
  }
  const int64_t length = element_as_i64(depth->dtype(), depth->data(), 0);
  if (length < 1 || length > INT32_MAX) {
    out.invalid("depth", std::to_string(length), "1 to 2^31 - 1");
    return;
  }
  const int axis = read_axis(node, &out, -1, indices.rank + 1);
  if (axis < 0) return;
  if (indices.rank + 1 > kMaxRank) {
    out.unsupported("rank", std::to_string(indices.rank), strf("up to %d", kMaxRank - 1));
    return;
  }
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(indices[i]);
  result.push_back(length);
  for (int i = axis; i < indices.rank; ++i) result.push_back(indices[i]);
  set_sized_output(out, 0, node.input_dtype(2), result);
}

ParamBytes make_one_hot_params(const NodeView& node) {
  return pack_params(AxisParams{read_axis(node, nullptr, -1, node.input_shape(0).rank + 1), 0});
}

// --- NonZero ---

void infer_nonzero(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  const Tensor* data = out.need_constant(0, "X");
  if (data == nullptr) return;
  int64_t count = 0;
  for (int64_t i = 0; i < data->num_elements(); ++i) count += element_as_f64(data->dtype(), data->data(), i) != 0;
  out.set_output(0, DType::kI64, Shape{data->shape().rank, count});
}

// --- TopK ---

void infer_topk(const NodeView& node, Inference& out) {
  if (!out.check_inputs(node.opset() < 10 ? 1 : 2, node.opset() < 10 ? 1 : 2)) return;
  const Shape& shape = node.input_shape(0);
  const int axis = read_axis(node, &out, -1, shape.rank);
  if (axis < 0) return;
  int64_t k = node.attr_int("k", -1);
  if (node.opset() >= 10) {
    const Tensor* tensor = out.need_constant(1, "K");
    if (tensor == nullptr) return;
    k = tensor->num_elements() == 1 ? element_as_i64(tensor->dtype(), tensor->data(), 0) : -1;
  }
  if (k < 0 || k > shape[axis]) {
    out.invalid("k", std::to_string(k), "0 to " + std::to_string(shape[axis]));
    return;
  }
  Shape result = shape;
  result[axis] = k;
  out.set_output(0, node.input_dtype(0), result);
  out.set_output(1, DType::kI64, result);
}

ParamBytes make_topk_params(const NodeView& node) {
  TopKParams params;
  params.axis = read_axis(node, nullptr, -1, node.input_shape(0).rank);
  params.smallest = node.opset() >= 11 && node.attr_int("largest", 1) == 0;
  return pack_params(params);
}

Status lower_topk(const NodeView& node, Lowering& out) {
  if (!node.has_output(0) || !node.has_output(1)) {
    return {Code::kUnsupported, "TopK without one of its outputs is not supported", node.node().name};
  }
  return lower_to(node, out, "topk", make_topk_params(node), {0});
}

// --- Trilu, CumSum ---

void infer_trilu(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 2)) return;
  if (node.has_input(1)) {
    const Tensor* k = out.need_constant(1, "k");
    if (k == nullptr) return;
    if (k->num_elements() != 1) {
      out.invalid("k", print_shape(k->shape()), "one number");
      return;
    }
  }
  if (node.input_shape(0).rank < 2) {
    out.invalid("rank", std::to_string(node.input_shape(0).rank), "at least 2");
    return;
  }
  out.set_output(0, node.input_dtype(0), node.input_shape(0));
}

ParamBytes make_trilu_params(const NodeView& node) {
  TriluParams params;
  params.upper = node.attr_int("upper", 1) != 0;
  if (const Tensor* k = node.constant(1)) params.k = element_as_i64(k->dtype(), k->data(), 0);
  return pack_params(params);
}

Status lower_trilu(const NodeView& node, Lowering& out) {
  return lower_to(node, out, "trilu", make_trilu_params(node), {0});
}

// The axis is an input; -1 after a problem.
int read_cumsum_axis(const NodeView& node, Inference* out) {
  const Tensor* tensor = node.constant(1);
  const int rank = node.input_shape(0).rank;
  int axis = 0;
  if (tensor != nullptr && tensor->num_elements() == 1 &&
      normalize_axis(element_as_i64(tensor->dtype(), tensor->data(), 0), rank, &axis)) {
    return axis;
  }
  if (out)
    out->invalid("axis", tensor ? print_ints(constant_ints(*tensor)) : "absent", strf("within [-%d, %d)", rank, rank));
  return -1;
}

void infer_cumsum(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2) || out.need_constant(1, "axis") == nullptr) return;
  if (read_cumsum_axis(node, &out) >= 0) out.set_output(0, node.input_dtype(0), node.input_shape(0));
}

ParamBytes make_cumsum_params(const NodeView& node) {
  CumSumParams params;
  params.axis = read_cumsum_axis(node, nullptr);
  params.exclusive = node.attr_int("exclusive", 0) != 0;
  params.reverse = node.attr_int("reverse", 0) != 0;
  return pack_params(params);
}

Status lower_cumsum(const NodeView& node, Lowering& out) {
  return lower_to(node, out, "cumsum", make_cumsum_params(node), {0});
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Gather", "", 1, "slices of the data along axis, by indices (i32, i64; clamped at run time); any dtype",
       infer_gather, make_axis_params, gather_reference, "gather", nullptr},
      {"GatherElements", "", 11, "an element for each index; axis; any dtype", infer_gather_elements, make_axis_params,
       gather_elements_reference, "gather_elements", nullptr},
      {"GatherND", "", 11, "slices by index tuples; batch_dims; any dtype", infer_gather_nd, make_nd_params,
       gather_nd_reference, "gather_nd", nullptr},
      {"ScatterElements", "", 11, "the data with elements replaced or reduced; axis, reduction; any dtype",
       infer_scatter_elements, make_axis_params, scatter_elements_reference, "scatter_elements", nullptr},
      {"Scatter", "", 9, "the older name of ScatterElements", infer_scatter_elements, make_axis_params,
       scatter_elements_reference, "scatter_elements", nullptr},
      {"ScatterND", "", 11, "the data with slices replaced or reduced; reduction; any dtype", infer_scatter_nd,
       make_nd_params, scatter_nd_reference, "scatter_nd", nullptr},
      {"OneHot", "", 9, "values[1] where the index is, values[0] elsewhere; axis; any dtype", infer_one_hot,
       make_one_hot_params, one_hot_reference, "one_hot", nullptr},
      {"NonZero", "", 9, "indices of the elements that are not 0; folds (constant input only)", infer_nonzero, nullptr,
       nonzero_reference, nullptr, nullptr},
      {"TopK", "", 1, "the k largest or smallest along axis, ties by lower index; any dtype", infer_topk,
       make_topk_params, topk_reference, "topk", lower_topk},
      {"Trilu", "", 14, "the triangle above or below the k-th diagonal; upper; any dtype", infer_trilu,
       make_trilu_params, trilu_reference, "trilu", lower_trilu},
      {"CumSum", "", 11, "running sums along axis; exclusive, reverse; floats and integers", infer_cumsum,
       make_cumsum_params, cumsum_reference, "cumsum", lower_cumsum},
  };
  return kDefs;
}

}  // namespace kiln::ops::gather
