#include "ops/conv/define_window.h"

#include <algorithm>

#include "ops/activation.h"
#include "ops/conv/conv.h"

namespace kiln::ops::conv {

namespace {

std::string print_ints(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

constexpr int kMaxExtent = 1 << 28;  // of a window: positions stay within 32 bits

// Reads `count` integers in [min, kMaxWindow]; absent leaves `values` as they are.
bool read_ints(const NodeView& node, const char* name, int64_t min, size_t count, Inference* out,
               std::vector<int64_t>* values) {
  if (!node.has_attr(name)) return true;
  *values = node.attr_ints(name);
  bool good = values->size() == count;
  for (int64_t v : *values) good = good && v >= min && v <= kMaxWindow;
  if (good) return true;
  if (out != nullptr) {
    bool is_negative_pad = min == 0 && values->size() == count;
    for (int64_t v : *values) is_negative_pad = is_negative_pad && v <= kMaxWindow;
    const std::string required = strf("%zu integers of at least %d", count, static_cast<int>(min));
    if (is_negative_pad)
      out->unsupported(name, print_ints(*values), required);
    else
      out->invalid(name, print_ints(*values), required);
  }
  return false;
}

bool read(const NodeView& node, const Shape& weights, Inference* out, Window* window) {
  window->spatial = weights.rank - 2;
  const auto spatial = static_cast<size_t>(window->spatial);
  const int first = 3 - window->spatial;
  std::vector<int64_t> kernel, strides(spatial, 1), dilations(spatial, 1), pads(2 * spatial, 0);
  for (int i = 2; i < weights.rank; ++i) kernel.push_back(weights[i]);
  const std::vector<int64_t> from_weights = kernel;
  if (!read_ints(node, "kernel_shape", 1, spatial, out, &kernel) ||
      !read_ints(node, "strides", 1, spatial, out, &strides) ||
      !read_ints(node, "dilations", 1, spatial, out, &dilations)) {
    return false;
  }
  if (kernel != from_weights) {
    if (out != nullptr)
      out->invalid("kernel_shape", print_ints(kernel), "that of the weights, " + print_ints(from_weights));
    return false;
  }
  window->auto_pad = node.attr_string("auto_pad", "NOTSET");
  if (window->auto_pad.empty()) window->auto_pad = "NOTSET";
  if (window->auto_pad == "NOTSET") {
    if (!read_ints(node, "pads", 0, 2 * spatial, out, &pads)) return false;
  } else if (window->auto_pad != "VALID" && window->auto_pad != "SAME_UPPER" && window->auto_pad != "SAME_LOWER") {
    if (out != nullptr) out->invalid("auto_pad", window->auto_pad, "NOTSET, VALID, SAME_UPPER or SAME_LOWER");
    return false;
  }
  for (size_t i = 0; i < spatial; ++i) {
    if ((kernel[i] - 1) * dilations[i] < kMaxExtent) continue;
    if (out != nullptr)
      out->unsupported("dilations", print_ints(dilations),
                       strf("windows of at most %d pixels along an axis", kMaxExtent));
    return false;
  }
  for (size_t i = 0; i < spatial; ++i) {
    window->kernel[first + int(i)] = kernel[i];
    window->stride[first + int(i)] = strides[i];
    window->dilation[first + int(i)] = dilations[i];
    window->pad_begin[first + int(i)] = pads[i];
    window->pad_end[first + int(i)] = pads[i + spatial];
  }
  return true;
}

}  // namespace

void spatial_sizes(const Shape& shape, bool is_nhwc, int64_t size[3]) {
  const int spatial = shape.rank - 2;
  for (int i = 0; i < 3; ++i) size[i] = 1;
  for (int i = 0; i < spatial; ++i) size[3 - spatial + i] = shape[(is_nhwc ? 1 : 2) + i];
}

Shape image_shape(int64_t n, int64_t c, const int64_t size[3], int spatial, bool is_nhwc) {
  Shape shape{n};
  if (!is_nhwc) shape.push_back(c);
  for (int i = 3 - spatial; i < 3; ++i) shape.push_back(size[i]);
  if (is_nhwc) shape.push_back(c);
  return shape;
}

bool read_window(const NodeView& node, const Shape& weights, Inference& out, Window* window) {
  return read(node, weights, &out, window);
}

Window window_of(const NodeView& node, const Shape& weights) {
  Window window;
  read(node, weights, nullptr, &window);
  return window;
}

void resolve_pads(const int64_t in_size[3], Window* window, int64_t out_size[3]) {
  for (int i = 0; i < 3; ++i) {
    const int64_t extent = (window->kernel[i] - 1) * window->dilation[i] + 1;
    if (window->auto_pad == "SAME_UPPER" || window->auto_pad == "SAME_LOWER") {
      const int64_t out = (in_size[i] + window->stride[i] - 1) / window->stride[i];
      const int64_t total = std::max<int64_t>(0, (out - 1) * window->stride[i] + extent - in_size[i]);
      const int64_t small = total / 2;
      window->pad_begin[i] = window->auto_pad == "SAME_UPPER" ? small : total - small;
      window->pad_end[i] = total - window->pad_begin[i];
    }
    const int64_t room = in_size[i] + window->pad_begin[i] + window->pad_end[i] - extent;
    out_size[i] = room < 0 ? 0 : room / window->stride[i] + 1;
  }
}

bool check_fused(const NodeView& node, int64_t channels, const Shape& output, bool takes_residual, Inference& out) {
  if (node.has_input(2) && (node.input_shape(2).rank != 1 || node.input_shape(2)[0] != channels)) {
    out.invalid("shape of bias", print_shape(node.input_shape(2)), strf("[%lld]", static_cast<long long>(channels)));
    return false;
  }
  const std::string activation = node.attr_string("activation", "");
  if (!activation.empty() && read_activation(node.node()).kind == 0) {
    out.unsupported("activation", activation, "Clip, LeakyRelu, Sigmoid, Silu, HardSigmoid, HardSwish, Tanh");
    return false;
  }
  if (!takes_residual) return true;
  const std::string residual = node.attr_string("residual", "before_activation");
  if (residual != "before_activation" && residual != "after_activation") {
    out.unsupported("residual", residual, "before_activation, after_activation");
    return false;
  }
  if (node.has_input(3) && !(node.input_shape(3) == output)) {
    out.invalid("shape of residual", print_shape(node.input_shape(3)), "the output's, " + print_shape(output));
    return false;
  }
  return true;
}

int32_t read_residual(const NodeView& node, int residual_input) {
  if (!node.has_input(residual_input)) return static_cast<int32_t>(Residual::kNone);
  const bool is_after = node.attr_string("residual", "before_activation") == "after_activation";
  return static_cast<int32_t>(is_after ? Residual::kAfterActivation : Residual::kBeforeActivation);
}

}  // namespace kiln::ops::conv
