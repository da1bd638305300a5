#include "ops/concat/concat.h"
#include "ops/constants.h"

namespace kiln::ops::concat {

void concat_reference(const KernelArgs& args);

namespace {

int64_t read_axis(const NodeView& node) { return node.attr_int("axis", 1); }

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, INT32_MAX)) return;
  const Shape& first = node.input_shape(0);
  if (node.opset() >= 4 && !node.has_attr("axis")) {
    out.invalid("axis", "absent", "present");
    return;
  }
  int axis = 0;
  if (!normalize_axis(read_axis(node), first.rank, &axis)) {
    out.invalid("axis", std::to_string(read_axis(node)), strf("within [-%d, %d)", first.rank, first.rank));
    return;
  }
  Shape result = first;
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (!node.has_input(i)) {
      out.invalid("input", std::to_string(i) + " (absent)", "present");
      return;
    }
    Shape shape = node.input_shape(i);
    if (node.input_dtype(i) != node.input_dtype(0)) {
      out.invalid(strf("dtype of input %d", i).c_str(), dtype_name(node.input_dtype(i)),
                  dtype_name(node.input_dtype(0)));
      return;
    }
    const int64_t length = axis < shape.rank ? shape[axis] : 0;
    if (shape.rank == first.rank) shape[axis] = first[axis];
    if (!(shape == first)) {
      out.invalid(strf("shape of input %d", i).c_str(), print_shape(node.input_shape(i)),
                  print_shape(first) + strf(" but for axis %d", axis));
      return;
    }
    result[axis] += length;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

ParamBytes make_params(const NodeView& node) {
  int axis = 0;
  normalize_axis(read_axis(node), node.input_shape(0).rank, &axis);
  return pack_params(ConcatParams{axis});
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Concat", "", 1, "inputs one behind the other along axis; any dtype", infer, make_params, concat_reference,
       "concat", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::concat
