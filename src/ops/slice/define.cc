#include <algorithm>

#include "ops/constants.h"
#include "ops/slice/slice.h"

namespace kiln::ops::slice {

void slice_reference(const KernelArgs& args);

namespace {

struct Ranges {
  SliceParams params;
  Shape shape;  // of the output
};

// One axis: from start, every step, until end (exclusive); ONNX's clamping.
void clamp_range(int64_t dim, int64_t start, int64_t end, int64_t step, int32_t* first, int32_t* stride,
                 int64_t* count) {
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, dim);
    end = std::clamp<int64_t>(end, 0, dim);
    *count = end > start ? (end - start - 1) / step + 1 : 0;
  } else {
    start = std::clamp<int64_t>(start, -1, dim - 1);
    end = std::clamp<int64_t>(end, -1, dim - 1);
    // -(step + 1) + 1 would overflow for INT64_MIN: divide by the negative step instead.
    *count = end < start ? (end - start + 1) / step + 1 : 0;
  }
  // The step of a single element does not matter, so that it always fits.
  *stride = *count > 1 ? static_cast<int32_t>(step) : 1;
  *first = *count > 0 ? static_cast<int32_t>(start) : 0;
}

bool read_ranges(const NodeView& node, Inference* out, Ranges& ranges) {
  const Shape& shape = node.input_shape(0);
  const std::vector<int64_t> starts = attr_or_input_ints(node, "starts", 1);
  const std::vector<int64_t> ends = attr_or_input_ints(node, "ends", 2);
  std::vector<int64_t> axes = attr_or_input_ints(node, "axes", 3);
  std::vector<int64_t> steps = node.opset() < 10 ? std::vector<int64_t>() : attr_or_input_ints(node, "steps", 4);
  if (!(node.has_input(3) || node.has_attr("axes"))) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (!node.has_input(4)) steps.assign(starts.size(), 1);
  if (out != nullptr) {
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
      out->invalid("starts", print_ints(starts), "as many as ends, axes and steps");
      return false;
    }
    if (!normalize_axes(axes, shape.rank, *out)) return false;
  }
  ranges.shape = shape;
  for (int i = 0; i < shape.rank; ++i) ranges.params.step[i] = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis = 0;
    normalize_axis(axes[i], shape.rank, &axis);
    if (steps[i] == 0) {
      if (out != nullptr) out->invalid("steps", print_ints(steps), "no 0");
      return false;
    }
    clamp_range(shape[axis], starts[i], ends[i], steps[i], &ranges.params.start[axis], &ranges.params.step[axis],
                &ranges.shape[axis]);
  }
  return true;
}

void infer(const NodeView& node, Inference& out) {
  if (node.opset() < 10) {
    if (!out.check_inputs(1, 1)) return;
  } else {
    if (!out.check_inputs(3, 5)) return;
    static constexpr const char* kNames[] = {"", "starts", "ends", "axes", "steps"};
    for (int i = 1; i < node.num_inputs(); ++i) {
      if (node.has_input(i) && out.need_constant(i, kNames[i]) == nullptr) return;
    }
  }
  Ranges ranges;
  if (read_ranges(node, &out, ranges)) out.set_output(0, node.input_dtype(0), ranges.shape);
}

ParamBytes make_params(const NodeView& node) {
  Ranges ranges;
  read_ranges(node, nullptr, ranges);
  return pack_params(ranges.params);
}

Status lower(const NodeView& node, Lowering& out) { return lower_to(node, out, "slice", make_params(node), {0}); }

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Slice", "", 1, "in[start + i * step]; starts, ends, axes, steps (attributes before opset 10); any dtype", infer,
       make_params, slice_reference, "slice", lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::slice
