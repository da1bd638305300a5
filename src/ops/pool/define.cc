#include <algorithm>

#include "ops/constants.h"
#include "ops/pool/pool.h"

namespace kiln::ops::pool {

void pool_reference(const KernelArgs& args);
void global_pool_reference(const KernelArgs& args);

namespace {

constexpr int64_t kMaxWindow = 1 << 20;  // of kernel, stride, dilation, pad: keeps positions far from overflow

PoolKind kind_of(const NodeView& node) {
  const std::string& op = node.node().op;
  if (op == "MaxPool" || op == "GlobalMaxPool") return PoolKind::kMax;
  return op == "AveragePool" || op == "GlobalAveragePool" ? PoolKind::kAverage : PoolKind::kLp;
}

// Attribute `name` with one number in [low, 2^20] an axis, into the last entries of values[3].
bool read_window(const NodeView& node, Inference* out, const char* name, int spatial, int64_t low, int32_t* values) {
  if (!node.has_attr(name)) return true;
  const std::vector<int64_t> given = node.attr_ints(name);
  bool valid = static_cast<int>(given.size()) == spatial;
  for (int64_t value : given) valid = valid && value >= low && value <= kMaxWindow;
  if (!valid) {
    if (out) out->invalid(name, print_ints(given), strf("%d numbers from %d to 2^20", spatial, int(low)));
    return false;
  }
  for (int i = 0; i < spatial; ++i) values[3 - spatial + i] = static_cast<int32_t>(given[size_t(i)]);
  return true;
}

// Parameters and output shape. Problems are reported if `out` is given.
bool read_pool(const NodeView& node, Inference* out, PoolParams& p, Shape& result) {
  const Shape& shape = node.input_shape(0);
  const int spatial = shape.rank - 2;
  p.kind = static_cast<int32_t>(kind_of(node));
  p.spatial = spatial;
  p.count_include_pad = node.attr_int("count_include_pad", 0) != 0;
  p.column_major = node.attr_int("storage_order", 0) != 0;
  p.is_nhwc = node.is_nhwc();
  p.p = static_cast<int32_t>(std::clamp<int64_t>(node.attr_int("p", 2), 0, INT32_MAX));
  if (spatial < 1 || spatial > 3) {
    if (out) out->unsupported("rank", std::to_string(shape.rank), "3 to 5");
    return false;
  }
  if (!node.has_attr("kernel_shape")) {
    if (out) out->invalid("kernel_shape", "absent", "present");
    return false;
  }
  if (!read_window(node, out, "kernel_shape", spatial, 1, p.kernel) ||
      !read_window(node, out, "strides", spatial, 1, p.stride) ||
      !read_window(node, out, "dilations", spatial, 1, p.dilation)) {
    return false;
  }
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty()) {
    if (out) out->invalid("auto_pad", auto_pad, "NOTSET, VALID, SAME_UPPER or SAME_LOWER");
    return false;
  }
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    const std::vector<int64_t> pads = node.attr_ints("pads");
    bool valid = !node.has_attr("pads") || static_cast<int>(pads.size()) == 2 * spatial;
    for (int64_t pad : pads) valid = valid && pad >= 0 && pad <= kMaxWindow;
    if (!valid) {
      if (out) out->invalid("pads", print_ints(pads), strf("%d numbers from 0 to 2^20", 2 * spatial));
      return false;
    }
    for (int i = 0; i < spatial && !pads.empty(); ++i) {
      p.pad_begin[3 - spatial + i] = static_cast<int32_t>(pads[size_t(i)]);
      p.pad_end[3 - spatial + i] = static_cast<int32_t>(pads[size_t(i + spatial)]);
    }
  }
  const bool ceil_mode = node.attr_int("ceil_mode", 0) != 0;
  result = shape;
  for (int i = 0; i < spatial; ++i) {
    const int a = 3 - spatial + i;
    const int axis = i + (p.is_nhwc ? 1 : 2);
    const int64_t dim = shape[axis];
    const int64_t stride = p.stride[a];
    const int64_t window = int64_t(p.kernel[a] - 1) * p.dilation[a] + 1;
    int64_t length = 0;
    if (same) {
      length = (dim + stride - 1) / stride;
      const int64_t pad = std::max<int64_t>(0, (length - 1) * stride + window - dim);
      if (pad > INT32_MAX) {
        if (out) out->unsupported("auto_pad", auto_pad, "windows below 2^31");
        return false;
      }
      p.pad_begin[a] = static_cast<int32_t>(auto_pad == "SAME_UPPER" ? pad / 2 : pad - pad / 2);
      p.pad_end[a] = static_cast<int32_t>(pad) - p.pad_begin[a];
    } else {
      const int64_t room = dim + p.pad_begin[a] + p.pad_end[a] - window;
      if (room >= 0) length = (ceil_mode ? room + stride - 1 : room) / stride + 1;
      // A window that would start behind the input and its left padding is dropped.
      if (length > 0 && ceil_mode && (length - 1) * stride >= dim + p.pad_begin[a]) --length;
    }
    if (length < 1) {
      if (out) out->invalid("kernel_shape", std::to_string(p.kernel[a]), "a window that fits " + print_shape(shape));
      return false;
    }
    result[axis] = length;
  }
  return true;
}

bool check_pool_dtype(const NodeView& node, Inference& out) {
  if (kind_of(node) == PoolKind::kMax) {
    return out.check_dtype(0, {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kU8});
  }
  return out.check_dtype(0, {DType::kF32, DType::kF16, DType::kBF16, DType::kF64});
}

void infer_pool(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !check_pool_dtype(node, out)) return;
  PoolParams params;
  Shape result;
  if (!read_pool(node, &out, params, result)) return;
  if (params.kind == static_cast<int32_t>(PoolKind::kLp) && params.p < 1) {
    out.invalid("p", std::to_string(node.attr_int("p", 2)), "at least 1");
    return;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
  if (node.has_output(1)) out.set_output(1, DType::kI64, result);
}

ParamBytes make_pool_params(const NodeView& node) {
  PoolParams params;
  Shape result;
  read_pool(node, nullptr, params, result);
  return pack_params(params);
}

Status lower_pool(const NodeView& node, Lowering& out) {
  const DType dtype = node.input_dtype(0);
  const bool fast = dtype == DType::kF32 && !node.has_output(1) && kind_of(node) != PoolKind::kLp;
  const bool is_bytes = (dtype == DType::kU8 || dtype == DType::kI8) && !node.has_output(1) && node.is_nhwc() &&
                        node.input_shape(0).rank <= 4;
  const char* kernel = fast ? "pool_f32" : (is_bytes ? "pool_bytes" : "pool_plain");
  return lower_to(node, out, kernel, make_pool_params(node), {0});
}

void infer_global(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !check_pool_dtype(node, out)) return;
  Shape result = node.input_shape(0);
  if (result.rank < 3) {
    out.invalid("rank", std::to_string(result.rank), "at least 3");
    return;
  }
  if (kind_of(node) == PoolKind::kLp && (node.attr_int("p", 2) < 1 || node.attr_int("p", 2) > INT32_MAX)) {
    out.invalid("p", std::to_string(node.attr_int("p", 2)), "at least 1");
    return;
  }
  const int first = node.is_nhwc() ? 1 : 2;
  for (int i = 0; i < result.rank - 2; ++i) {
    if (result[first + i] == 0) {
      out.invalid("shape", print_shape(node.input_shape(0)), "spatial dims that are not 0");
      return;
    }
    result[first + i] = 1;
  }
  out.set_output(0, node.input_dtype(0), result);
}

ParamBytes make_global_params(const NodeView& node) {
  GlobalPoolParams params;
  params.kind = static_cast<int32_t>(kind_of(node));
  params.is_nhwc = node.is_nhwc();
  params.p = static_cast<int32_t>(node.attr_int("p", 2));
  return pack_params(params);
}

Status lower_global(const NodeView& node, Lowering& out) {
  const bool fast = node.input_dtype(0) == DType::kF32 && kind_of(node) != PoolKind::kLp;
  return lower_to(node, out, fast ? "global_pool_f32" : "global_pool_plain", make_global_params(node), {0});
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"MaxPool", "", 1,
       "maximum of windows, 1-D to 3-D; kernel_shape, strides, pads, auto_pad, dilations, ceil_mode, storage_order, "
       "Indices; f32 (f16, bf16, f64, i8, u8 plainly)",
       infer_pool, make_pool_params, pool_reference, "pool_f32", lower_pool},
      {"AveragePool", "", 1,
       "mean of windows, 1-D to 3-D; kernel_shape, strides, pads, auto_pad, dilations, ceil_mode, count_include_pad; "
       "f32 (f16, bf16, f64 plainly)",
       infer_pool, make_pool_params, pool_reference, "pool_f32", lower_pool},
      {"LpPool", "", 2,
       "(sum |x|^p)^(1/p) of windows, 1-D to 3-D; kernel_shape, strides, pads, auto_pad, dilations, ceil_mode, p; "
       "floats, plainly",
       infer_pool, make_pool_params, pool_reference, "pool_plain", lower_pool},
      {"GlobalMaxPool", "", 1, "maximum of each plane; f32 (f16, bf16, f64, i8, u8 plainly)", infer_global,
       make_global_params, global_pool_reference, "global_pool_f32", lower_global},
      {"GlobalAveragePool", "", 1, "mean of each plane; f32 (f16, bf16, f64 plainly)", infer_global, make_global_params,
       global_pool_reference, "global_pool_f32", lower_global},
      {"GlobalLpPool", "", 2, "(sum |x|^p)^(1/p) of each plane; p; floats, plainly", infer_global, make_global_params,
       global_pool_reference, "global_pool_plain", lower_global},
  };
  return kDefs;
}

}  // namespace kiln::ops::pool
