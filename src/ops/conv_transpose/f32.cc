#include <cstring>

#include "ops/conv/geometry.h"
#include "ops/conv_transpose/phases.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::conv_transpose {

void conv_transpose_reference(const KernelArgs& args);

namespace {

constexpr int32_t kMaxSize = 1 << 24;  // of kernel, stride, dilation, pad and spatial dims: sums stay within 32 bits

int32_t pixel_stride(const TensorRef& nhwc) {
  const int32_t stride = row_stride(nhwc);
  return stride != 0 ? stride : nhwc.dims[nhwc.rank - 1];
}

void run_phases(const KernelArgs& args) {
  const auto& p = args.params_as<ConvTransposeParams>();
  const conv::Image x = conv::make_image(args.in[0], true);
  const conv::Image y = conv::make_image(args.out[0], true);
  const int32_t group_in = x.c / p.group;
  const int32_t group_out = y.c / p.group;
  const PhaseSizes sizes = phase_sizes(p, y.n, group_in, group_out, y.size[1], y.size[2]);
  std::memset(args.scratch, 0, sizes.zero_bytes);
  const int64_t y_pixel = pixel_stride(args.out[0]);
  const float* packed = args.in[1].as<float>();
  for_each_phase(p, y.size[1], y.size[2], [&](const AxisPhase& rows, const AxisPhase& columns, int32_t h, int32_t w) {
    WindowRows window;
    window.x = args.in[0].as<float>();
    window.zeros = static_cast<const float*>(args.scratch);
    window.pixel_stride = pixel_stride(args.in[0]);
    window.image_stride = window.pixel_stride * x.size[1] * x.size[2];
    window.height = x.size[1];
    window.width = x.size[2];
    window.out_height = rows.num_outputs;
    window.out_width = columns.num_outputs;
    window.kernel_w = columns.num_taps;
    window.dilation_h = window.dilation_w = -1;
    window.pad_top = -rows.offset;
    window.pad_left = -columns.offset;
    window.group_channels = group_in;

    Gemm gemm;
    gemm.num_groups = p.group;
    gemm.m = y.n * rows.num_outputs * columns.num_outputs;
    gemm.n = group_out;
    gemm.k = rows.num_taps * columns.num_taps * group_in;
    gemm.row_form = window_form(rows.num_taps * columns.num_taps, group_in);
    window.is_copied = gemm.row_form.is_copied;
    gemm.locate_rows = locate_window_rows;
    gemm.rows_context = &window;
    gemm.b = packed;
    gemm.c = args.out[0].as<float>() + (int64_t{h} * y.size[2] + w) * y_pixel;
    gemm.c_rows.width = columns.num_outputs;
    gemm.c_rows.height = rows.num_outputs;
    gemm.c_rows.x_stride = p.stride[2] * y_pixel;
    gemm.c_rows.y_stride = int64_t{p.stride[1]} * y.size[2] * y_pixel;
    gemm.c_rows.i_stride = int64_t{y.size[1]} * y.size[2] * y_pixel;
    gemm.activation = p.activation;
    run_gemm(gemm, args.parallel, static_cast<char*>(args.scratch) + sizes.zero_bytes);
    packed += phase_floats(p, rows, columns, group_in, group_out);
  });
}

Status check_images(const KernelArgs& args, bool dense) {
  KILN_TRY(check_params<ConvTransposeParams>(args));
  KILN_TRY(check_operands(args, 2, 3, 1));
  KILN_TRY(check_layouts(args, dense, dense));
  const auto& p = args.params_as<ConvTransposeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  for (int i = 0; i < args.num_in; ++i) {
    if (args.in[i].present() && args.in[i].dtype != DType::kF32) return corrupt("an input is not f32");
  }
  if (y.dtype != DType::kF32 || x.rank < 3 || x.rank > 5 || y.rank != x.rank)
    return corrupt("operands are no f32 images");
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] < 1 || y.dims[i] < 1 || x.dims[i] > kMaxSize || y.dims[i] > kMaxSize) {
      return corrupt("an operand is empty or too large");
    }
  }
  for (int i = 0; i < 3; ++i) {
    const auto in_range = [](int32_t value, int32_t low) { return value >= low && value <= kMaxSize; };
    if (!in_range(p.kernel[i], 1) || !in_range(p.stride[i], 1) || !in_range(p.dilation[i], 1) ||
        !in_range(p.pad_begin[i], 0)) {
      return corrupt("kernel, stride, dilation or pad out of range");
    }
  }
  const conv::Image in = conv::make_image(x, p.is_nhwc != 0);
  const conv::Image out = conv::make_image(y, p.is_nhwc != 0);
  if (p.group < 1 || in.c % p.group != 0 || out.c % p.group != 0 || in.n != out.n) {
    return corrupt("channels or batch do not fit");
  }
  return is_activation(p.activation) ? Status() : corrupt("unknown activation");
}

Status check_phases(const KernelArgs& args) {
  KILN_TRY(check_images(args, false));
  const auto& p = args.params_as<ConvTransposeParams>();
  const conv::Image x = conv::make_image(args.in[0], true);
  const conv::Image y = conv::make_image(args.out[0], true);
  const TensorRef& packed = args.in[1];
  if (p.is_nhwc == 0 || args.in[0].rank > 4 || p.kernel[0] != 1 || (args.num_in > 2 && args.in[2].present())) {
    return corrupt("not a 2-D NHWC convolution with its bias packed");
  }
  for (int i = 0; i < 3; ++i) {
    if (p.dilation[i] != 1 || p.stride[i] > kMaxPhaseStride) return corrupt("dilation or stride out of range");
  }
  const int64_t group_in = x.c / p.group;
  int64_t k = 0;
  int64_t floats = 0;
  if (__builtin_mul_overflow(int64_t{p.kernel[1]} * p.kernel[2], group_in, &k) || k > INT32_MAX ||
      __builtin_mul_overflow(packed_b_floats(y.c / p.group, k), int64_t{p.group}, &floats)) {
    return corrupt("weights are too large");
  }
  const PhaseSizes sizes = phase_sizes(p, y.n, group_in, y.c / p.group, y.size[1], y.size[2]);
  if (packed.rank != 1 || packed.dims[0] != sizes.packed_floats) return corrupt("packed weights do not fit");
  return args.scratch_bytes < sizes.scratch_bytes ? corrupt("too little scratch") : Status();
}

Status check_plain(const KernelArgs& args) {
  KILN_TRY(check_images(args, true));
  const auto& p = args.params_as<ConvTransposeParams>();
  const TensorRef& w = args.in[1];
  if (w.rank != args.in[0].rank) return corrupt("weights of another rank");
  const conv::Image x = conv::make_image(args.in[0], p.is_nhwc != 0);
  const conv::Image y = conv::make_image(args.out[0], p.is_nhwc != 0);
  const conv::Image weights = conv::make_image(w, false);
  if (weights.n != x.c || weights.c != y.c / p.group || weights.size[0] != p.kernel[0] ||
      weights.size[1] != p.kernel[1] || weights.size[2] != p.kernel[2]) {
    return corrupt("weights do not fit the convolution");
  }
  const bool has_bias = args.num_in > 2 && args.in[2].present();
  if (has_bias && (args.in[2].rank != 1 || args.in[2].dims[0] != y.c)) return corrupt("bias does not fit the output");
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static const KernelDef kTable[] = {
      {"conv_transpose_f32_phases", run_phases, check_phases, true, true},
      {"conv_transpose_f32_plain", conv_transpose_reference, check_plain},
  };
  return kTable;
}

}  // namespace kiln::ops::conv_transpose
