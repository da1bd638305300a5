#include "ops/constants.h"

namespace kiln::ops::reshape {

void copy_reference(const KernelArgs& args);

namespace {

void infer_reshape(const NodeView& node, Inference& out) {
  std::vector<int64_t> target;
  if (node.opset() < 5) {
    if (!out.check_inputs(1, 1)) return;
    target = node.attr_ints("shape");
  } else {
    if (!out.check_inputs(2, 2)) return;
    const Tensor* shape = out.need_constant(1, "shape");
    if (shape == nullptr) return;
    target = constant_ints(*shape);
  }
  if (target.size() > static_cast<size_t>(kMaxRank)) {
    out.unsupported("shape", print_ints(target), strf("up to %d dims", kMaxRank));
    return;
  }
  const Shape& from = node.input_shape(0);
  const bool allow_zero = node.attr_int("allowzero", 0) != 0;
  Shape result;
  int wildcard = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    int64_t dim = target[i];
    if (dim == 0 && !allow_zero) {
      if (static_cast<int>(i) >= from.rank) {
        out.invalid("shape", print_ints(target), "no 0 beyond the input's rank");
        return;
      }
      dim = from[static_cast<int>(i)];
    } else if (dim == -1) {
      if (wildcard >= 0) {
        out.invalid("shape", print_ints(target), "at most one -1");
        return;
      }
      wildcard = static_cast<int>(i);
      dim = 1;
    } else if (dim < 0) {
      out.invalid("shape", print_ints(target), "dims >= -1");
      return;
    }
    result.push_back(dim);
  }
  const int64_t n = from.num_elements();
  int64_t known = result.num_elements();
  if (wildcard >= 0) {
    // -1 beside a dim of 0 has no answer, unless all of the input's missing dim is 0 too.
    if (known > 0 && n % known == 0)
      result[wildcard] = n / known;
    else if (known == 0 && n == 0 && !allow_zero)
      result[wildcard] = 0;
    else
      known = -2;
  }
  if (known == -2 || result.num_elements() != n) {
    out.invalid("shape", print_ints(target), "as many elements as the input " + print_shape(from));
    return;
  }
  out.set_output(0, node.input_dtype(0), result);
}

void infer_flatten(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  const Shape& shape = node.input_shape(0);
  int64_t axis = node.attr_int("axis", 1);
  if (axis < -shape.rank || axis > shape.rank) {
    out.invalid("axis", std::to_string(axis), strf("within [-%d, %d]", shape.rank, shape.rank));
    return;
  }
  if (axis < 0) axis += shape.rank;
  const int split = static_cast<int>(axis);
  out.set_output(0, node.input_dtype(0), Shape{shape.product(0, split), shape.product(split, shape.rank)});
}

// False after a problem; `given` tells whether there are axes at all.
bool read_axes(const NodeView& node, Inference& out, int rank, std::vector<int64_t>& axes, bool& given) {
  if (node.opset() < 13) {
    if (!out.check_inputs(1, 1)) return false;
    given = node.has_attr("axes");
    axes = node.attr_ints("axes");
  } else {
    if (!out.check_inputs(1, 2)) return false;
    given = node.has_input(1);
    if (given) {
      const Tensor* tensor = out.need_constant(1, "axes");
      if (tensor == nullptr) return false;
      axes = constant_ints(*tensor);
    }
  }
  if (rank < 0) rank = node.input_shape(0).rank + static_cast<int>(axes.size() > 64 ? 64 : axes.size());
  if (rank > kMaxRank) {
    out.unsupported("axes", print_ints(axes), strf("results of up to %d dims", kMaxRank));
    return false;
  }
  return normalize_axes(axes, rank, out);
}

void infer_squeeze(const NodeView& node, Inference& out) {
  std::vector<int64_t> axes;
  bool given = false;
  if (node.num_inputs() < 1 || !node.has_input(0)) {
    out.check_inputs(1, 2);
    return;
  }
  const Shape& shape = node.input_shape(0);
  if (!read_axes(node, out, shape.rank, axes, given)) return;
  bool drop[kMaxRank] = {};
  for (int i = 0; !given && i < shape.rank; ++i) drop[i] = shape[i] == 1;
  for (int64_t axis : axes) {
    if (shape[static_cast<int>(axis)] != 1) {
      out.invalid("axes", print_ints(axes), "dims of length 1 in " + print_shape(shape));
      return;
    }
    drop[axis] = true;
  }
  Shape result;
  for (int i = 0; i < shape.rank; ++i) {
    if (!drop[i]) result.push_back(shape[i]);
  }
  out.set_output(0, node.input_dtype(0), result);
}

void infer_unsqueeze(const NodeView& node, Inference& out) {
  std::vector<int64_t> axes;
  bool given = false;
  if (node.num_inputs() < 1 || !node.has_input(0)) {
    out.check_inputs(1, 2);
    return;
  }
  if (!read_axes(node, out, -1, axes, given)) return;
  if (!given) {
    out.invalid("axes", "absent", "present");
    return;
  }
  const Shape& shape = node.input_shape(0);
  Shape result;
  result.rank = shape.rank + static_cast<int>(axes.size());
  for (int64_t axis : axes) result[static_cast<int>(axis)] = 1;
  int from = 0;
  for (int i = 0; i < result.rank; ++i) {
    if (result[i] == 0) {  // not one of `axes`
      bool is_new = false;
      for (int64_t axis : axes) is_new = is_new || axis == i;
      if (!is_new) result[i] = shape[from++];
    }
  }
  out.set_output(0, node.input_dtype(0), result);
}

Status lower(const NodeView& node, Lowering& out) { return lower_to(node, out, "copy", {}, {0}); }

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Reshape", "", 1, "same elements, dims of `shape` (0 copies a dim, -1 is what is left; allowzero); any dtype",
       infer_reshape, nullptr, copy_reference, "copy", lower},
      {"Flatten", "", 1, "two dims: those before `axis`, those from it on; any dtype", infer_flatten, nullptr,
       copy_reference, "copy", lower},
      {"Squeeze", "", 1, "without the dims of length 1 (or those of `axes`, attribute or input); any dtype",
       infer_squeeze, nullptr, copy_reference, "copy", lower},
      {"Unsqueeze", "", 1, "with dims of length 1 at `axes` (attribute or input); any dtype", infer_unsqueeze, nullptr,
       copy_reference, "copy", lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::reshape
