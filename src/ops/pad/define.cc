#include "ops/constants.h"
#include "ops/pad/pad.h"

namespace kiln::ops::pad {

void pad_reference(const KernelArgs& args);

namespace {

constexpr const char* kModes[] = {"constant", "reflect", "edge", "wrap"};

int read_mode(const NodeView& node) {
  const std::string name = node.attr_string("mode", "constant");
  for (int i = 0; i < 4; ++i) {
    if (name == kModes[i]) return i;
  }
  return -1;
}

// begin and end of every axis; false if the model is wrong.
bool read_pads(const NodeView& node, Inference* out, std::vector<int64_t>& begin, std::vector<int64_t>& end) {
  const int rank = node.input_shape(0).rank;
  const std::vector<int64_t> pads = node.opset() < 11 ? node.attr_ints("pads") : attr_or_input_ints(node, "pads", 1);
  std::vector<int64_t> axes;
  if (node.has_input(3)) {
    axes = constant_ints(*node.constant(3));
  } else {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (out != nullptr) {
    if (pads.size() != 2 * axes.size()) {
      out->invalid("pads", print_ints(pads), strf("%d numbers", int(2 * axes.size())));
      return false;
    }
    if (!normalize_axes(axes, rank, *out)) return false;
  }
  begin.assign(static_cast<size_t>(rank), 0);
  end.assign(static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis = 0;
    normalize_axis(axes[i], rank, &axis);
    begin[size_t(axis)] = pads[i];
    end[size_t(axis)] = pads[i + axes.size()];
  }
  return true;
}

void infer(const NodeView& node, Inference& out) {
  if (node.opset() < 11) {
    if (!out.check_inputs(1, 1)) return;
  } else {
    if (!out.check_inputs(2, node.opset() < 18 ? 3 : 4)) return;
    if (out.need_constant(1, "pads") == nullptr) return;
    if (node.has_input(3) && out.need_constant(3, "axes") == nullptr) return;
    if (node.has_input(2)) {
      if (node.input_shape(2).num_elements() != 1) {
        out.invalid("shape of constant_value", print_shape(node.input_shape(2)), "one element");
        return;
      }
      if (node.input_dtype(2) != node.input_dtype(0)) {
        out.invalid("dtype of constant_value", dtype_name(node.input_dtype(2)), dtype_name(node.input_dtype(0)));
        return;
      }
    }
  }
  const int mode = read_mode(node);
  if (mode < 0) {
    out.unsupported("mode", node.attr_string("mode", ""), "constant, reflect, edge, wrap");
    return;
  }
  std::vector<int64_t> begin, end;
  if (!read_pads(node, &out, begin, end)) return;
  Shape result = node.input_shape(0);
  for (int i = 0; i < result.rank; ++i) {
    const int64_t before = begin[size_t(i)];
    const int64_t after = end[size_t(i)];
    const bool fits = before > INT32_MIN && before < INT32_MAX && after > INT32_MIN && after < INT32_MAX;
    const int64_t dim = fits ? result[i] + before + after : -1;
    if (dim < 0) {
      out.invalid("pads", print_ints(begin) + " and " + print_ints(end), "dims that stay >= 0");
      return;
    }
    if (mode != 0 && result[i] == 0 && dim > 0) {
      out.invalid("mode", kModes[mode], "a dim that is not 0");
      return;
    }
    result[i] = dim;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

ParamBytes make_params(const NodeView& node) {
  PadParams params;
  params.mode = read_mode(node);
  std::vector<int64_t> begin, end;
  read_pads(node, nullptr, begin, end);
  for (size_t i = 0; i < begin.size(); ++i) params.begin[i] = static_cast<int32_t>(begin[i]);
  if (node.opset() < 11) store_f64(node.input_dtype(0), params.value, 0, node.attr_float("value", 0));
  return pack_params(params);
}

Status lower(const NodeView& node, Lowering& out) {
  if (node.opset() < 11 || !node.has_input(2)) return lower_to(node, out, "pad", make_params(node), {0});
  return lower_to(node, out, "pad", make_params(node), {0, 2});
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Pad", "", 2, "more (or fewer) elements around; mode constant, reflect, edge, wrap; pads, axes; any dtype",
       infer, make_params, pad_reference, "pad", lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::pad
