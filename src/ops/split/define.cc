#include "ops/constants.h"
#include "ops/split/split.h"

namespace kiln::ops::split {

void split_reference(const KernelArgs& args);

namespace {

// Lengths of the outputs. `axis_length` is the input's.
std::vector<int64_t> read_lengths(const NodeView& node, int64_t axis_length) {
  std::vector<int64_t> lengths = attr_or_input_ints(node, "split", 1);
  if (!lengths.empty() || node.num_outputs() == 0) return lengths;
  const int64_t count = node.num_outputs();
  const int64_t piece = (axis_length + count - 1) / count;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(i + 1 < count ? piece : axis_length - piece * (count - 1));
  return lengths;
}

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, node.opset() < 13 && node.opset() > 1 ? 1 : 2)) return;
  const Shape& shape = node.input_shape(0);
  int axis = 0;
  if (!normalize_axis(node.attr_int("axis", 0), shape.rank, &axis)) {
    out.invalid("axis", std::to_string(node.attr_int("axis", 0)), strf("within [-%d, %d)", shape.rank, shape.rank));
    return;
  }
  if (node.has_input(1) && out.need_constant(1, "split") == nullptr) return;
  if (node.num_outputs() == 0) {
    out.invalid("number of outputs", "0", "at least 1");
    return;
  }
  const int64_t count = node.num_outputs();
  if (node.has_attr("num_outputs") && node.attr_int("num_outputs", 0) != count) {
    out.invalid("num_outputs", std::to_string(node.attr_int("num_outputs", 0)), strf("%d outputs", int(count)));
    return;
  }
  const bool explicit_lengths = node.has_input(1) || node.has_attr("split");
  const std::vector<int64_t> lengths = read_lengths(node, shape[axis]);
  int64_t sum = 0;
  bool valid = static_cast<int64_t>(lengths.size()) == count;
  for (int64_t length : lengths) {
    valid = valid && length >= 0 && length <= shape[axis];
    if (valid) sum += length;
  }
  if (!valid || sum != shape[axis]) {
    out.invalid("split", print_ints(lengths), strf("%d lengths whose sum is the dim %d", int(count), int(shape[axis])));
    return;
  }
  if (!explicit_lengths && node.opset() < 18 && shape[axis] % count != 0) {
    out.invalid("number of outputs", std::to_string(count), "a divisor of the dim " + std::to_string(shape[axis]));
    return;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    Shape piece = shape;
    piece[axis] = lengths[static_cast<size_t>(i)];
    out.set_output(i, node.input_dtype(0), piece);
  }
}

ParamBytes make_params(const NodeView& node) {
  const Shape& shape = node.input_shape(0);
  int axis = 0;
  normalize_axis(node.attr_int("axis", 0), shape.rank, &axis);
  ParamBytes params = pack_params(SplitParams{axis, node.num_outputs()});
  int32_t begin = 0;
  for (int64_t length : read_lengths(node, shape[axis])) {
    const ParamBytes bytes = pack_params(begin);
    params.insert(params.end(), bytes.begin(), bytes.end());
    begin += static_cast<int32_t>(length);
  }
  return params;
}

Status lower(const NodeView& node, Lowering& out) { return lower_to(node, out, "split", make_params(node), {0}); }

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Split", "", 1, "pieces along axis; split as attribute or input, num_outputs; any dtype", infer, make_params,
       split_reference, "split", lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::split
