#include "passes/permute_node.h"

#include <algorithm>
#include <cstring>

#include "passes/match.h"
#include "passes/merge_reshapes.h"
#include "passes/reshape_axes.h"

namespace kiln {
namespace {

enum class Kind {
  kNone,
  kPointwise,  // inputs broadcast to the output
  kAxis,       // attribute `axis` (Concat, Split, Softmax, QuantizeLinear with a scale an index)
  kAxisInput,  // CumSum: the axis is input 1
  kArg,        // ArgMax, ArgMin: attribute `axis`, keepdims
  kSlice,
  kPad,
  kReduce,
  kResize,
  kTile,  // Tile, Expand: one number an axis in input 1
  kGather,
  kReshape,
  kWindow,  // NHWC Conv, pools: height and width change places
};

bool is_one_of(const std::string& op, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return op == name; });
}

bool is_quantize(const Node& node) { return is_one_of(node.op, {"QuantizeLinear", "DequantizeLinear"}); }

Kind kind_of(Rewriter& rewriter, int n) {
  const Node& node = rewriter.node(n);
  const OpDef* def = rewriter.ops().find(node);
  if (def == nullptr) return Kind::kNone;
  const bool is_per_axis = is_quantize(node) && rewriter.value(node.inputs[1]).shape.num_elements() != 1;
  if (def->pointwise) return is_per_axis ? Kind::kAxis : Kind::kPointwise;
  if (!node.domain.empty()) return Kind::kNone;
  const std::string& op = node.op;
  if (op == "Concat" || op == "Split") return Kind::kAxis;
  if (op == "Softmax" || op == "LogSoftmax") return node.opset >= 13 ? Kind::kAxis : Kind::kNone;
  if (op == "CumSum") return Kind::kAxisInput;
  if (op == "ArgMax" || op == "ArgMin") return Kind::kArg;
  if (op == "Slice") return Kind::kSlice;
  if (op == "Pad") return Kind::kPad;
  if (op.rfind("Reduce", 0) == 0) return Kind::kReduce;
  if (op == "Resize" || op == "Upsample") return Kind::kResize;
  if (op == "Tile" || op == "Expand") return Kind::kTile;
  if (op == "Gather") return Kind::kGather;
  if (is_reshape(node)) return Kind::kReshape;
  if (is_one_of(op, {"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})) return Kind::kWindow;
  return Kind::kNone;
}

// Inputs that only say how: they are never permuted, and permute_node rewrites them.
size_t num_data_inputs(Kind kind, const Node& node) {
  switch (kind) {
    case Kind::kPointwise:
      if (is_quantize(node) || is_one_of(node.op, {"Clip", "Dropout", "CastLike"})) return 1;
      return node.inputs.size();
    case Kind::kAxis:
      return node.op == "Concat" ? node.inputs.size() : 1;
    default:
      return 1;
  }
}

int new_place(const Perm& perm, int axis) {
  return static_cast<int>(std::find(perm.begin(), perm.end(), axis) - perm.begin());
}

// The axis as the node has it (maybe negative) after permuting.
int64_t move_axis(const Perm& perm, int64_t axis) {
  const auto rank = static_cast<int64_t>(perm.size());
  return new_place(perm, static_cast<int>(axis < 0 ? axis + rank : axis));
}

// ---- which perms go together
// -------------------------------------------------------------------------------------------

// Axes that a reduction drops from its output are dropped from the perm.
Perm drop_axes(const Perm& perm, const std::vector<bool>& dropped) {
  std::vector<int> renumbered(dropped.size(), -1);
  int kept = 0;
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (!dropped[i]) renumbered[i] = kept++;
  }
  Perm result;
  for (int axis : perm) {
    if (!dropped[static_cast<size_t>(axis)]) result.push_back(renumbered[static_cast<size_t>(axis)]);
  }
  return result;
}

// The inverse: dropped axes come back, each behind the axis that it was behind (leading ones stay in front).
Perm insert_axes(const Perm& perm, const std::vector<bool>& dropped) {
  Perm result;
  std::vector<std::vector<int>> behind(perm.size() + 1);  // dropped axes behind kept axis k - 1
  std::vector<int> number;                                // of kept axes in the full numbering
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (dropped[i])
      behind[number.size()].push_back(static_cast<int>(i));
    else
      number.push_back(static_cast<int>(i));
  }
  result = behind[0];
  for (int axis : perm) {
    result.push_back(number[static_cast<size_t>(axis)]);
    for (int extra : behind[static_cast<size_t>(axis) + 1]) result.push_back(extra);
  }
  return result;
}

// Axes that the node takes away from its output; nothing if it is not known.
std::optional<std::vector<bool>> dropped_axes(const NodeView& node, Kind kind) {
  const int rank = node.input_shape(0).rank;
  std::vector<bool> dropped(static_cast<size_t>(rank), false);
  if (kind == Kind::kArg || kind == Kind::kGather) {
    int axis = 0;
    if (!normalize_axis(node.attr_int("axis", 0), rank, &axis)) return std::nullopt;
    if (kind == Kind::kGather) {
      const Tensor* indices = node.constant(1);
      if (indices == nullptr || indices->shape().rank > 1) return std::nullopt;
      dropped[static_cast<size_t>(axis)] = indices->shape().rank == 0;
    } else {
      dropped[static_cast<size_t>(axis)] = node.attr_int("keepdims", 1) == 0;
    }
    return dropped;
  }
  if (node.attr_int("keepdims", 1) != 0) return dropped;
  if (node.output(0).shape.rank == rank) return dropped;
  const auto axes = ints_of(node, "axes", 1);
  if (!axes || axes->empty()) {
    if (node.has_input(1) && !axes) return std::nullopt;
    dropped.assign(dropped.size(), true);
    return dropped;
  }
  for (int64_t given : *axes) {
    int axis = 0;
    if (!normalize_axis(given, rank, &axis)) return std::nullopt;
    dropped[static_cast<size_t>(axis)] = true;
  }
  return dropped;
}

std::optional<OperandPerms> same_for_all(Rewriter& rewriter, int n, Kind kind, const Perm& perm) {
  const Node& node = rewriter.node(n);
  const size_t data_inputs = num_data_inputs(kind, node);
  OperandPerms perms;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    perms.inputs.emplace_back();
    if (i >= data_inputs || node.inputs[i] == kNoValue) continue;
    const Value& value = rewriter.value(node.inputs[i]);
    if (kind == Kind::kPointwise && value.shape.num_elements() == 1 &&
        value.shape.rank < static_cast<int>(perm.size())) {
      continue;
    }
    const bool fits = value.shape.rank == static_cast<int>(perm.size());
    const bool can_be_reshaped = kind == Kind::kPointwise && value.constant != nullptr;
    if (!fits && !can_be_reshaped) return std::nullopt;
    perms.inputs.back() = perm;
  }
  for (ValueId id : node.outputs) {
    perms.outputs.emplace_back();
    if (id == kNoValue) continue;
    if (rewriter.value(id).shape.rank != static_cast<int>(perm.size())) return std::nullopt;
    perms.outputs.back() = perm;
  }
  return perms;
}

// Windows are symmetric in height and width but for their attributes and weights.
bool is_swap(const NodeView& node, const Perm& perm) {
  if (!node.is_nhwc() || node.num_outputs() != 1 || perm != Perm{0, 2, 1, 3}) return false;
  if (node.attr_string("input_layout", "NHWC") != "NHWC") return false;
  return node.node().op != "Conv" || node.constant(1) != nullptr;
}

std::optional<OperandPerms> permuted_window(Rewriter& rewriter, int n, const Perm& perm) {
  if (!is_swap(rewriter.view(n), perm)) return std::nullopt;
  OperandPerms perms;
  perms.inputs.resize(rewriter.node(n).inputs.size());
  perms.inputs[0] = perm;
  if (rewriter.node(n).op == "Conv" && rewriter.input(n, 3) != kNoValue) perms.inputs[3] = perm;
  perms.outputs = {perm};
  return perms;
}

bool constants_are_known(Rewriter& rewriter, int n, Kind kind) {
  const Node& node = rewriter.node(n);
  if (kind == Kind::kPointwise) return true;
  for (size_t i = num_data_inputs(kind, node); i < node.inputs.size(); ++i) {
    if (kind == Kind::kWindow) break;
    if (node.inputs[i] != kNoValue && !rewriter.is_constant(node.inputs[i])) {
      // Pad's value may be computed: it has no axes.
      if (!(kind == Kind::kPad && i == 2)) return false;
    }
  }
  return true;
}

std::optional<OperandPerms> find_perms(Rewriter& rewriter, int n, bool is_input, size_t index, const Perm& perm) {
  const Kind kind = kind_of(rewriter, n);
  if (kind == Kind::kNone || !constants_are_known(rewriter, n, kind)) return std::nullopt;
  const Node& node = rewriter.node(n);
  if (is_input && kind != Kind::kWindow && index >= num_data_inputs(kind, node)) return std::nullopt;
  if (kind == Kind::kWindow) return permuted_window(rewriter, n, perm);
  if (kind == Kind::kPointwise && is_input && rewriter.value(node.inputs[index]).shape.num_elements() == 1 &&
      rewriter.value(node.outputs[0]).shape.num_elements() != 1) {
    return std::nullopt;  // a scalar says nothing about the others
  }
  const bool may_drop = kind == Kind::kReduce || kind == Kind::kArg || kind == Kind::kGather;
  if (!may_drop && kind != Kind::kReshape) return same_for_all(rewriter, n, kind, perm);

  OperandPerms perms;
  perms.inputs.resize(node.inputs.size());
  perms.outputs.resize(1);
  if (node.outputs.size() != 1) return std::nullopt;
  if (kind == Kind::kReshape) {
    const Shape& from = rewriter.value(node.inputs[0]).shape;
    const Shape& to = rewriter.value(node.outputs[0]).shape;
    const auto other = is_input ? perm_across_reshape(from, to, perm) : perm_across_reshape(to, from, perm);
    if (!other) return std::nullopt;
    perms.inputs[0] = is_input ? perm : *other;
    perms.outputs[0] = is_input ? *other : perm;
    return perms;
  }
  const auto dropped = dropped_axes(rewriter.view(n), kind);
  if (!dropped) return std::nullopt;
  perms.inputs[0] = is_input ? perm : insert_axes(perm, *dropped);
  perms.outputs[0] = is_input ? drop_axes(perm, *dropped) : perm;
  return perms;
}

// ---- changing the node
// -------------------------------------------------------------------------------------------------

Tensor ints_like(const Tensor& model, const std::vector<int64_t>& values) {
  Tensor tensor(model.dtype(), Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    store_i64(model.dtype(), tensor.data(), static_cast<int64_t>(i), values[i]);
  return tensor;
}

void set_constant(Rewriter& rewriter, int n, size_t i, Tensor tensor) {
  const std::string name = rewriter.value(rewriter.input(n, i)).name;
  rewriter.set_input(n, i, rewriter.add_constant(name, std::move(tensor)));
}

// A constant input with `per_axis` rows of one element an axis.
void permute_rows(Rewriter& rewriter, int n, size_t i, const Perm& perm) {
  const TensorPtr old = rewriter.value(rewriter.input(n, i)).constant;
  const auto rank = static_cast<int64_t>(perm.size());
  if (old->num_elements() == 0) return;
  Tensor tensor(old->dtype(), old->shape());
  const size_t item = dtype_bytes(old->dtype());
  for (int64_t k = 0; k < old->num_elements(); ++k) {
    const int64_t from = k / rank * rank + perm[static_cast<size_t>(k % rank)];
    std::memcpy(static_cast<char*>(tensor.data()) + static_cast<size_t>(k) * item,
                static_cast<const char*>(old->data()) + static_cast<size_t>(from) * item, item);
  }
  set_constant(rewriter, n, i, std::move(tensor));
}

void permute_axes_input(Rewriter& rewriter, int n, size_t i, const Perm& perm) {
  const TensorPtr old = rewriter.value(rewriter.input(n, i)).constant;
  Tensor tensor(old->dtype(), old->shape());
  for (int64_t k = 0; k < old->num_elements(); ++k) {
    store_i64(old->dtype(), tensor.data(), k, move_axis(perm, element_as_i64(old->dtype(), old->data(), k)));
  }
  set_constant(rewriter, n, i, std::move(tensor));
}

void permute_axes_attr(Node& node, const char* name, const Perm& perm) {
  std::vector<int64_t> axes = attr_ints(node, name);
  for (int64_t& axis : axes) axis = move_axis(perm, axis);
  node.attrs[name] = axes;
}

void permute_axis_attr(Node& node, int64_t fallback, const Perm& perm) {
  node.attrs["axis"] = move_axis(perm, attr_int(node, "axis", fallback));
}

int64_t default_axis(const Node& node) {
  if (is_quantize(node)) return 1;
  return node.op == "Split" ? 0 : -1;
}

// Constants of a pointwise operator: to the output's rank, then permuted.
void permute_constants(Rewriter& rewriter, int n, const OperandPerms& perms) {
  for (size_t i = 0; i < perms.inputs.size(); ++i) {
    const ValueId id = rewriter.input(n, i);
    if (perms.inputs[i].empty() || !rewriter.is_constant(id)) continue;
    const Tensor& old = *rewriter.value(id).constant;
    const auto rank = static_cast<int>(perms.inputs[i].size());
    Shape shape;
    for (int k = 0; k < rank - old.shape().rank; ++k) shape.push_back(1);
    for (int k = 0; k < old.shape().rank; ++k) shape.push_back(old.shape()[k]);
    if (old.num_elements() == 1) {
      if (old.shape().rank == rank) continue;  // all ones already
    }
    Tensor full = old;
    full.reshape(shape);
    set_constant(rewriter, n, i, permute(full, perms.inputs[i]));
  }
}

void permute_slice(Rewriter& rewriter, int n, const Perm& perm) {
  Node& node = rewriter.node(n);
  if (node.opset < 10) {
    if (!has_attr(node, "axes")) {
      std::vector<int64_t> axes;
      for (size_t i = 0; i < attr_ints(node, "starts").size(); ++i) axes.push_back(static_cast<int64_t>(i));
      node.attrs["axes"] = axes;
    }
    permute_axes_attr(node, "axes", perm);
    return;
  }
  if (rewriter.input(n, 3) != kNoValue) {
    permute_axes_input(rewriter, n, 3, perm);
    return;
  }
  const Value starts = rewriter.value(rewriter.input(n, 1));
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < starts.constant->num_elements(); ++i) axes.push_back(move_axis(perm, i));
  rewriter.set_input(n, 3, rewriter.add_constant(starts.name + ".axes", ints_like(*starts.constant, axes)));
}

void permute_pad(Rewriter& rewriter, int n, const Perm& perm) {
  Node& node = rewriter.node(n);
  if (rewriter.input(n, 3) != kNoValue) {
    permute_axes_input(rewriter, n, 3, perm);
  } else if (node.opset < 11) {
    const std::vector<int64_t> old = attr_ints(node, "pads");
    std::vector<int64_t> pads;
    for (size_t i = 0; i < old.size(); ++i) {
      const size_t rank = perm.size();
      pads.push_back(old[i / rank * rank + static_cast<size_t>(perm[i % rank])]);
    }
    node.attrs["pads"] = pads;
  } else {
    permute_rows(rewriter, n, 1, perm);
  }
}

void permute_reduce(Rewriter& rewriter, int n, const Perm& perm) {
  Node& node = rewriter.node(n);
  if (has_attr(node, "axes"))
    permute_axes_attr(node, "axes", perm);
  else if (rewriter.input(n, 1) != kNoValue)
    permute_axes_input(rewriter, n, 1, perm);
}

void permute_resize(Rewriter& rewriter, int n, const Perm& perm) {
  Node& node = rewriter.node(n);
  if (has_attr(node, "axes")) {
    permute_axes_attr(node, "axes", perm);
    return;
  }
  if (has_attr(node, "scales")) {
    const std::vector<float> old = attr_floats(node, "scales");
    std::vector<float> scales;
    for (int axis : perm) scales.push_back(old[static_cast<size_t>(axis)]);
    node.attrs["scales"] = scales;
  }
  const size_t num_inputs = node.inputs.size();
  for (size_t i = 1; i < num_inputs; ++i) {
    if (rewriter.input(n, i) != kNoValue) permute_rows(rewriter, n, i, perm);
  }
}

void swap_window(Rewriter& rewriter, int n) {
  Node& node = rewriter.node(n);
  for (const char* name : {"kernel_shape", "strides", "dilations"}) {
    std::vector<int64_t> values = attr_ints(node, name);
    if (values.size() != 2) continue;
    std::swap(values[0], values[1]);
    node.attrs[name] = values;
  }
  std::vector<int64_t> pads = attr_ints(node, "pads");
  if (pads.size() == 4) {
    std::swap(pads[0], pads[1]);
    std::swap(pads[2], pads[3]);
    node.attrs["pads"] = pads;
  }
  if (node.op != "Conv") return;
  const Tensor& weights = *rewriter.value(node.inputs[1]).constant;
  if (weights.shape()[2] == 1 && weights.shape()[3] == 1) return;
  set_constant(rewriter, n, 1, permute(weights, {0, 1, 3, 2}));
}

void become_reshape(Rewriter& rewriter, int n, const Perm& out_perm) {
  const Value& out = rewriter.value(rewriter.output(n));
  const Shape shape = permute(out.shape, out_perm);
  const std::string name = out.name + ".shape";
  const ValueId target = rewriter.add_i64_constant(name, {shape.dims, shape.dims + shape.rank});
  Node& node = rewriter.node(n);
  node.op = "Reshape";
  node.opset = 14;
  node.attrs.clear();
  node.attrs["allowzero"] = int64_t{1};
  const ValueId x = node.inputs[0];
  rewriter.set_inputs(n, {x, target});
}

}  // namespace

std::optional<OperandPerms> permuted_by_input(Rewriter& rewriter, int n, int index, const Perm& perm) {
  return find_perms(rewriter, n, true, static_cast<size_t>(index), perm);
}

std::optional<OperandPerms> permuted_by_output(Rewriter& rewriter, int n, int index, const Perm& perm) {
  return find_perms(rewriter, n, false, static_cast<size_t>(index), perm);
}

void permute_node(Rewriter& rewriter, int n, const OperandPerms& perms) {
  const Perm& perm = perms.inputs[0];
  switch (kind_of(rewriter, n)) {
    case Kind::kNone:
      break;
    case Kind::kPointwise:
      permute_constants(rewriter, n, perms);
      break;
    case Kind::kAxis:
      if (rewriter.node(n).op == "Concat") permute_constants(rewriter, n, perms);
      permute_axis_attr(rewriter.node(n), default_axis(rewriter.node(n)), perm);
      break;
    case Kind::kAxisInput:
      permute_axes_input(rewriter, n, 1, perm);
      break;
    case Kind::kArg:
    case Kind::kGather:
      permute_axis_attr(rewriter.node(n), 0, perm);
      break;
    case Kind::kSlice:
      permute_slice(rewriter, n, perm);
      break;
    case Kind::kPad:
      permute_pad(rewriter, n, perm);
      break;
    case Kind::kReduce:
      permute_reduce(rewriter, n, perm);
      break;
    case Kind::kResize:
      permute_resize(rewriter, n, perm);
      break;
    case Kind::kTile:
      permute_rows(rewriter, n, 1, perm);
      break;
    case Kind::kReshape:
      become_reshape(rewriter, n, perms.outputs[0]);
      break;
    case Kind::kWindow:
      swap_window(rewriter, n);
      break;
  }
}

}  // namespace kiln
