#include <algorithm>
#include <cmath>

#include "ops/constants.h"
#include "ops/resize/resize.h"

namespace kiln::ops::resize {

void resize_reference(const KernelArgs& args);

namespace {

constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
constexpr const char* kCoordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
                                        "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
constexpr const char* kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

// Position of the attribute's value in `names`; -1 after a problem.
template <size_t N>
int read_choice(const NodeView& node, Inference* out, const char* name, const char* fallback,
                const char* const (&names)[N]) {
  const std::string value = node.attr_string(name, fallback);
  std::string known;
  for (size_t i = 0; i < N; ++i) {
    if (value == names[i]) return static_cast<int>(i);
    known += (i > 0 ? ", " : "") + std::string(names[i]);
  }
  if (out) out->unsupported(name, value, known);
  return -1;
}

// The numbers of an optional input; empty if it is absent or has no elements.
std::vector<double> optional_floats(const NodeView& node, int i) {
  const Tensor* tensor = node.constant(i);
  return tensor ? constant_floats(*tensor) : std::vector<double>();
}

// Where scales and sizes come from: inputs of Resize 11+, of Resize 10 and Upsample 9, attribute of Upsample 7.
bool read_operands(const NodeView& node, Inference* out, std::vector<double>& roi, std::vector<double>& scales,
                   std::vector<double>& sizes) {
  const bool is_resize = node.node().op == "Resize";
  const bool newer = is_resize && node.opset() >= 11;
  if (out != nullptr) {
    if (newer ? !out->check_inputs(1, 4) : !out->check_inputs(1, 2)) return false;
    static constexpr const char* kNames[] = {"", "roi", "scales", "sizes"};
    for (int i = 1; i < node.num_inputs(); ++i) {
      const bool ignored =
          newer && i == 1 && node.attr_string("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
      if (ignored || !node.has_input(i)) continue;
      if (out->need_constant(i, newer ? kNames[i] : "scales") == nullptr) return false;
    }
  }
  if (newer) {
    roi = optional_floats(node, 1);
    scales = optional_floats(node, 2);
    sizes = optional_floats(node, 3);
  } else if (node.has_input(1)) {
    scales = optional_floats(node, 1);
  } else {
    for (float scale : attr_floats(node.node(), "scales")) scales.push_back(scale);
  }
  return true;
}

bool read_resize(const NodeView& node, Inference* out, ResizeParams& p, Shape& result) {
  const Shape& shape = node.input_shape(0);
  const bool is_resize = node.node().op == "Resize";
  std::vector<double> roi, scales, sizes;
  if (!read_operands(node, out, roi, scales, sizes)) return false;

  std::string mode = node.attr_string("mode", "nearest");
  if (!is_resize && mode == "bilinear") mode = "linear";
  p.mode = -1;
  for (int i = 0; i < 3; ++i) {
    if (mode == kModes[i]) p.mode = i;
  }
  if (p.mode < 0) {
    if (out) out->unsupported("mode", mode, "nearest, linear, cubic");
    return false;
  }
  if (is_resize && node.opset() >= 11) {
    p.coordinates = read_choice(node, out, "coordinate_transformation_mode", "half_pixel", kCoordinates);
    p.rounding = read_choice(node, out, "nearest_mode", "round_prefer_floor", kRoundings);
    if (p.coordinates < 0 || p.rounding < 0) return false;
  } else {
    p.coordinates = static_cast<int32_t>(Coordinates::kAsymmetric);
    p.rounding = static_cast<int32_t>(Rounding::kSimple);
  }
  p.antialias = node.attr_int("antialias", 0) != 0 && p.mode != 0;
  p.exclude_outside = node.attr_int("exclude_outside", 0) != 0;
  p.cubic_a = node.attr_float("cubic_coeff_a", -0.75f);
  p.extrapolation = node.attr_float("extrapolation_value", 0.0f);

  std::vector<int64_t> axes = node.attr_ints("axes");
  if (!node.has_attr("axes")) {
    for (int i = 0; i < shape.rank; ++i) axes.push_back(i);
  } else if (out != nullptr && !normalize_axes(axes, shape.rank, *out)) {
    return false;
  }
  const bool by_scales = !scales.empty() || (sizes.empty() && axes.empty());
  const std::vector<double>& given = by_scales ? scales : sizes;
  if (out != nullptr) {
    if (!scales.empty() && !sizes.empty()) {
      out->invalid("scales", "given beside sizes", "one of the two");
      return false;
    }
    if (given.size() != axes.size()) {
      out->invalid(sizes.empty() ? "scales" : "sizes", strf("%d numbers", int(given.size())),
                   strf("%d numbers, one an axis", int(axes.size())));
      return false;
    }
    for (double value : given) {
      if (by_scales ? !(value > 0 && value <= INT32_MAX) : !(value >= 0 && value <= INT32_MAX)) {
        out->invalid(by_scales ? "scales" : "sizes", std::to_string(value), "above 0, below 2^31");
        return false;
      }
    }
    if (p.coordinates == static_cast<int32_t>(Coordinates::kTfCropAndResize) && roi.size() != 2 * axes.size()) {
      out->invalid("roi", strf("%d numbers", int(roi.size())), strf("%d numbers", int(2 * axes.size())));
      return false;
    }
    for (double value : roi) {
      if (!std::isfinite(value)) {
        out->invalid("roi", std::to_string(value), "finite numbers");
        return false;
      }
    }
  }

  result = shape;
  for (int i = 0; i < shape.rank; ++i) {
    p.scale[i] = 1;
    p.length[i] = static_cast<float>(shape[i]);
    p.roi_start[i] = 0;
    p.roi_end[i] = 1;
  }
  // not_larger and not_smaller: one scale for all axes.
  const std::string policy = node.attr_string("keep_aspect_ratio_policy", "stretch");
  float common = 0;
  if (!by_scales && policy != "stretch") {
    if (policy != "not_larger" && policy != "not_smaller") {
      if (out) out->unsupported("keep_aspect_ratio_policy", policy, "stretch, not_larger, not_smaller");
      return false;
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const float scale = static_cast<float>(sizes[i]) / static_cast<float>(shape[int(axes[i])]);
      common = i == 0 ? scale : (policy == "not_larger" ? std::min(common, scale) : std::max(common, scale));
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis = 0;
    normalize_axis(axes[i], shape.rank, &axis);
    const auto dim = static_cast<float>(shape[axis]);
    double length = 0;
    if (by_scales) {
      p.scale[axis] = static_cast<float>(scales[i]);
      p.length[axis] = dim * p.scale[axis];
      length = std::floor(p.length[axis]);
    } else if (common != 0) {
      p.scale[axis] = common;
      p.length[axis] = dim * common;
      length = std::floor(p.length[axis] + 0.5f);
    } else {
      p.scale[axis] = static_cast<float>(sizes[i]) / dim;
      p.length[axis] = static_cast<float>(sizes[i]);
      length = sizes[i];
    }
    if (!(length >= 0 && length <= INT32_MAX) || (shape[axis] == 0 && length > 0)) {
      if (out) out->invalid(by_scales ? "scales" : "sizes", std::to_string(given[i]), "dims from 0 to 2^31 - 1");
      return false;
    }
    result[axis] = static_cast<int64_t>(length);
    if (!roi.empty() && p.coordinates == static_cast<int32_t>(Coordinates::kTfCropAndResize)) {
      p.roi_start[axis] = static_cast<float>(roi[i]);
      p.roi_end[axis] = static_cast<float>(roi[i + axes.size()]);
    }
  }
  return true;
}

void infer(const NodeView& node, Inference& out) {
  if (node.num_inputs() < 1 || !node.has_input(0)) {
    out.check_inputs(1, 4);
    return;
  }
  ResizeParams params;
  Shape result;
  if (!read_resize(node, &out, params, result)) return;
  if (params.mode != 0 && !out.check_dtype(0, {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                                               DType::kU8, DType::kI16, DType::kU16, DType::kI32})) {
    return;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

ParamBytes make_params(const NodeView& node) {
  ResizeParams params;
  Shape result;
  read_resize(node, nullptr, params, result);
  return pack_params(params);
}

template <typename T>
Operand pack_vector(DType dtype, const std::vector<T>& values) {
  Tensor tensor(dtype, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return {kNoValue, std::make_shared<const Tensor>(std::move(tensor))};
}

Status lower_nearest(const NodeView& node, const ResizeParams& p, const std::vector<AxisTaps>& taps, Lowering& out) {
  NearestParams params;
  store_f64(node.input_dtype(0), params.value, 0, p.extrapolation);
  std::vector<int32_t> indices;
  for (const AxisTaps& axis : taps) indices.insert(indices.end(), axis.index.begin(), axis.index.end());
  KILN_TRY(lower_to(node, out, "resize_nearest", pack_params(params), {0}));
  out.inputs.push_back(pack_vector(DType::kI32, indices));
  return {};
}

Status lower(const NodeView& node, Lowering& out) {
  ResizeParams p;
  Shape result;
  read_resize(node, nullptr, p, result);
  const Shape& shape = node.input_shape(0);
  std::vector<AxisTaps> taps;
  std::vector<int> changed;
  for (int i = 0; i < shape.rank; ++i) {
    taps.push_back(make_axis_taps(p, i, shape[i], result[i]));
    if (!taps.back().is_identity(shape[i])) changed.push_back(i);
  }
  if (changed.empty()) return lower_to(node, out, "copy", {}, {0});
  if (p.mode == static_cast<int32_t>(Mode::kNearest)) return lower_nearest(node, p, taps, out);

  // Reducing axes first: the buffers stay small.
  std::stable_sort(changed.begin(), changed.end(),
                   [&](int a, int b) { return result[a] * shape[b] < result[b] * shape[a]; });
  const bool is_f32 = node.input_dtype(0) == DType::kF32;
  bool fast = is_f32 && shape.rank == 4 && shape[3] >= 4;
  for (int axis : changed) {
    fast = fast && (axis == 1 || axis == 2);
    for (int32_t index : taps[size_t(axis)].index) fast = fast && index >= 0;
  }
  fast = fast && taps[1].num_taps == 2 && taps[2].num_taps == 2;
  std::vector<int32_t> indices;
  std::vector<float> weights;
  const auto append = [&](int axis) {
    const AxisTaps& axis_taps = taps[static_cast<size_t>(axis)];
    indices.insert(indices.end(), axis_taps.index.begin(), axis_taps.index.end());
    weights.insert(weights.end(), axis_taps.weight.begin(), axis_taps.weight.end());
  };
  if (fast) {
    append(1);
    append(2);
    KILN_TRY(lower_to(node, out, "resize_f32_linear_nhwc", {}, {0}));
  } else {
    SeparableParams params;
    params.extrapolation = p.extrapolation;
    params.num_passes = static_cast<int32_t>(changed.size());
    Shape stage = shape;
    int64_t largest = is_f32 ? 0 : stage.num_elements();
    for (size_t i = 0; i < changed.size(); ++i) {
      params.axis[i] = changed[i];
      params.taps[i] = taps[size_t(changed[i])].num_taps;
      append(changed[i]);
      stage[changed[i]] = result[changed[i]];
      if (!is_f32 || i + 1 < changed.size()) largest = std::max(largest, stage.num_elements());
    }
    KILN_TRY(lower_to(node, out, "resize_separable", pack_params(params), {0}));
    out.scratch_bytes = static_cast<size_t>(largest) * sizeof(float) * 2;
  }
  out.inputs.push_back(pack_vector(DType::kI32, indices));
  out.inputs.push_back(pack_vector(DType::kF32, weights));
  return {};
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Resize", "", 10,
       "nearest, linear, cubic on any axes; scales or sizes, roi, axes, coordinate_transformation_mode, nearest_mode, "
       "cubic_coeff_a, exclude_outside, extrapolation_value, antialias, keep_aspect_ratio_policy; nearest any dtype, "
       "else floats and integers",
       infer, make_params, resize_reference, nullptr, lower},
      {"Upsample", "", 7, "nearest, linear, asymmetric; scales as attribute or input; dtypes as Resize", infer,
       make_params, resize_reference, nullptr, lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::resize
