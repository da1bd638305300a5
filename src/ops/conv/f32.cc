#include <algorithm>
#include <cstring>

#include "cpu/gemm.h"
#include "ops/conv/geometry.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::conv {

namespace {

constexpr int64_t kMaxPosition = 1 << 30;

// Weights in ONNX order as B of the product.
SourceB weights_of_group(const ConvParams& p, const float* w, int32_t group_in, int32_t group_out) {
  SourceB b;
  const int32_t taps = p.kernel[1] * p.kernel[2];
  b.data = w;
  b.n = group_out;
  b.k_outer = taps;
  b.k_inner = group_in;
  b.n_stride = static_cast<int64_t>(group_in) * taps;
  b.outer_stride = 1;
  b.inner_stride = taps;
  return b;
}

// Whether every output reads the one pixel at its own place.
bool is_pixelwise(const ConvParams& p) {
  for (int i = 1; i < 3; ++i) {
    if (p.kernel[i] != 1 || p.stride[i] != 1 || p.pad_begin[i] != 0 || p.pad_end[i] != 0) return false;
  }
  return true;
}

// Pixels of y set to a bias known only at run time.
void fill_bias(const KernelArgs& args, const float* bias, int32_t m, int64_t stride, int32_t channels) {
  constexpr int32_t kRows = 256;
  parallel_for(args.parallel, (m + kRows - 1) / kRows, [&](int tile, int) {
    for (int32_t row = tile * kRows; row < std::min(m, (tile + 1) * kRows); ++row) {
      std::memcpy(args.out[0].as<float>() + row * stride, bias, static_cast<size_t>(channels) * sizeof(float));
    }
  });
}

void run_gemm8(const KernelArgs& args, bool dynamic) {
  const auto& p = args.params_as<ConvParams>();
  const Image x = make_image(args.in[0], p.input_is_nhwc != 0);
  const Image y = make_image(args.out[0], true);
  const int32_t group_in = x.c / p.group;
  const int32_t group_out = y.c / p.group;
  const int32_t k = p.kernel[1] * p.kernel[2] * group_in;
  const int32_t m = y.n * y.size[1] * y.size[2];
  const float* bias = args.num_in > 2 && args.in[2].present() ? args.in[2].as<float>() : nullptr;
  char* scratch = static_cast<char*>(args.scratch);
  const bool is_nhwc = p.input_is_nhwc != 0;

  WindowRows window;
  const size_t zero_bytes = static_cast<size_t>(p.kernel[2]) * static_cast<size_t>(group_in) * sizeof(float);
  std::memset(scratch, 0, zero_bytes);
  window.x = args.in[0].as<float>();
  window.zeros = reinterpret_cast<const float*>(scratch);
  scratch += align64(zero_bytes);
  window.height = x.size[1];
  window.width = x.size[2];
  window.out_height = y.size[1];
  window.out_width = y.size[2];
  window.kernel_w = p.kernel[2];
  window.stride_h = p.stride[1];
  window.stride_w = p.stride[2];
  window.dilation_h = p.dilation[1];
  window.dilation_w = p.dilation[2];
  window.pad_top = p.pad_begin[1];
  window.pad_left = p.pad_begin[2];
  window.group_channels = group_in;
  window.pixel_stride = is_nhwc ? pixel_stride(args.in[0]) : x.c;
  window.image_stride = window.pixel_stride * x.size[1] * x.size[2];

  Gemm gemm;
  gemm.num_groups = p.group;
  gemm.m = m;
  gemm.n = group_out;
  gemm.k = k;
  gemm.c = args.out[0].as<float>();
  gemm.c_rows = make_plain_rows(m, pixel_stride(args.out[0]));
  if (p.residual != 0) {
    gemm.residual = args.in[3].as<float>();
    gemm.residual_rows = make_plain_rows(m, pixel_stride(args.in[3]));
    gemm.residual_after = p.residual == static_cast<int32_t>(Residual::kAfterActivation);
  }
  gemm.activation = p.activation;

  if (dynamic) {
    auto* packed = reinterpret_cast<float*>(scratch);
    const int64_t floats = packed_b_floats(group_out, k);
    scratch += align64(static_cast<uint64_t>(floats) * static_cast<uint64_t>(p.group) * sizeof(float));
    parallel_for(args.parallel, p.group, [&](int group, int) {
      SourceB b = weights_of_group(p, args.in[1].as<float>() + static_cast<int64_t>(group) * group_out * k, group_in,
                                   group_out);
      b.bias = bias != nullptr ? bias + group * group_out : nullptr;
      pack_b(b, &serial_parallel(), packed + group * floats);
    });
    gemm.b = packed;
  } else {
    gemm.b = args.in[1].as<float>();
    if (bias != nullptr) {
      fill_bias(args, bias, m, gemm.c_rows.x_stride, y.c);
      gemm.accumulate = true;
    }
  }
  if (!is_nhwc) {
    run_planar(args, gemm, scratch);
    return;
  }
  MatrixRows pixels;
  if (is_pixelwise(p)) {
    pixels.data = window.x;
    pixels.row_stride = window.pixel_stride;
    pixels.group_stride = group_in;
    gemm.locate_rows = locate_matrix_rows;
    gemm.rows_context = &pixels;
  } else {
    gemm.row_form = window_form(p.kernel[1] * p.kernel[2], group_in);
    window.is_copied = gemm.row_form.is_copied;
    gemm.locate_rows = locate_window_rows;
    gemm.rows_context = &window;
  }
  run_gemm(gemm, args.parallel, scratch);
}

void run_gemm8_packed(const KernelArgs& args) { run_gemm8(args, false); }
void run_gemm8_dynamic(const KernelArgs& args) { run_gemm8(args, true); }

Status check_gemm8(const KernelArgs& args, bool dynamic) {
  KILN_TRY(check_images(args, true));
  const auto& p = args.params_as<ConvParams>();
  if (p.output_is_nhwc == 0 || p.kernel[0] != 1 || args.in[0].rank > 4) return corrupt("not a 2-D NHWC convolution");
  if (p.input_is_nhwc == 0 && !args.in[0].is_contiguous()) return corrupt("x is not dense");
  const Image x = make_image(args.in[0], p.input_is_nhwc != 0);
  const Image y = make_image(args.out[0], true);
  const int64_t group_in = x.c / p.group;
  const int64_t group_out = y.c / p.group;
  if (dynamic) {
    KILN_TRY(check_weights(args));
  } else {
    const TensorRef& packed = args.in[1];
    const int64_t taps = static_cast<int64_t>(p.kernel[1]) * p.kernel[2];
    int64_t k = 0;
    int64_t floats = 0;
    if (__builtin_mul_overflow(taps, group_in, &k) || k > INT32_MAX ||
        __builtin_mul_overflow(packed_b_floats(group_out, k), static_cast<int64_t>(p.group), &floats) ||
        packed.dtype != DType::kF32 || packed.rank != 1 || packed.dims[0] != floats || !packed.is_contiguous()) {
      return corrupt("packed weights do not fit the convolution");
    }
  }
  const int64_t out_size[3] = {1, y.size[1], y.size[2]};
  if (args.scratch_bytes < gemm8_scratch_bytes(p, y.n, x.c, y.c, out_size, dynamic))
    return corrupt("too little scratch");
  return {};
}

Status check_gemm8_packed(const KernelArgs& args) {
  KILN_TRY(check_gemm8(args, false));
  return args.params_as<ConvParams>().input_is_nhwc != 0 ? Status() : corrupt("x is not NHWC");
}
Status check_gemm8_planar(const KernelArgs& args) {
  KILN_TRY(check_gemm8(args, false));
  return args.params_as<ConvParams>().input_is_nhwc == 0 ? Status() : corrupt("x is not NCHW");
}
Status check_gemm8_dynamic(const KernelArgs& args) { return check_gemm8(args, true); }

Status check_plain(const KernelArgs& args) {
  KILN_TRY(check_images(args, false));
  return check_weights(args);
}

}  // namespace

int32_t pixel_stride(const TensorRef& nhwc) {
  const int32_t stride = row_stride(nhwc);
  return stride != 0 ? stride : nhwc.dims[nhwc.rank - 1];
}

Status check_window(const ConvParams& p, const Image& in, const Image& out) {
  for (int i = 0; i < 3; ++i) {
    if (p.kernel[i] < 1 || p.stride[i] < 1 || p.dilation[i] < 1 || p.pad_begin[i] < 0 || p.pad_end[i] < 0) {
      return corrupt("kernel, stride, dilation or pad out of range");
    }
    const int64_t extent = (static_cast<int64_t>(p.kernel[i]) - 1) * p.dilation[i] + 1;
    const int64_t padded = static_cast<int64_t>(in.size[i]) + p.pad_begin[i] + p.pad_end[i];
    if (p.dilation[i] > kMaxPosition || extent > kMaxPosition || padded > kMaxPosition || extent > padded ||
        (padded - extent) / p.stride[i] + 1 != out.size[i] ||
        static_cast<int64_t>(out.size[i]) * p.stride[i] > kMaxPosition) {
      return corrupt("output size does not follow from kernel, strides and pads");
    }
  }
  if (p.group < 1 || in.c % p.group != 0 || out.c % p.group != 0 || in.n != out.n) {
    return corrupt("channels or batch do not fit");
  }
  return {};
}

Status check_images(const KernelArgs& args, bool strided) {
  KILN_TRY(check_params<ConvParams>(args));
  KILN_TRY(check_operands(args, 2, 4, 1));
  KILN_TRY(check_layouts(args, !strided, !strided));
  const auto& p = args.params_as<ConvParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  for (int i = 0; i < args.num_in; ++i) {
    if (args.in[i].present() && args.in[i].dtype != DType::kF32) return corrupt("an input is not f32");
  }
  if (y.dtype != DType::kF32 || x.rank < 3 || x.rank > 5 || y.rank != x.rank)
    return corrupt("operands are no f32 images");
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] < 1 || y.dims[i] < 1) return corrupt("an operand is empty");
  }
  const Image in = make_image(x, p.input_is_nhwc != 0);
  const Image out = make_image(y, p.output_is_nhwc != 0);
  KILN_TRY(check_window(p, in, out));
  if (args.num_in > 2 && args.in[2].present()) {
    if (args.in[2].rank != 1 || args.in[2].dims[0] != out.c) return corrupt("bias does not fit the output");
  }
  if (p.residual < 0 || p.residual > 2) return corrupt("unknown kind of residual");
  const bool has_residual = args.num_in > 3 && args.in[3].present();
  if (has_residual != (p.residual != 0) || (has_residual && !same_dims(args.in[3], y))) {
    return corrupt("residual does not fit the output");
  }
  if (!is_activation(p.activation)) return corrupt("unknown activation");
  return {};
}

Status check_weights(const KernelArgs& args) {
  const auto& p = args.params_as<ConvParams>();
  const TensorRef& w = args.in[1];
  const Image x = make_image(args.in[0], p.input_is_nhwc != 0);
  const Image y = make_image(args.out[0], p.output_is_nhwc != 0);
  if (w.rank != args.in[0].rank || !w.is_contiguous()) return corrupt("weights are not dense or of another rank");
  const Image weights = make_image(w, false);
  if (weights.n != y.c || weights.c != x.c / p.group || weights.size[0] != p.kernel[0] ||
      weights.size[1] != p.kernel[1] || weights.size[2] != p.kernel[2]) {
    return corrupt("weights do not fit the convolution");
  }
  return {};
}

std::span<const KernelDef> kernels() {
  static const KernelDef kTable[] = {
      {"conv_f32_gemm8", run_gemm8_packed, check_gemm8_packed, true, true},
      {"conv_f32_gemm8_planar", run_gemm8_packed, check_gemm8_planar, false, true},
      {"conv_f32_gemm8_dynamic", run_gemm8_dynamic, check_gemm8_dynamic, false, true},
      {"conv_f32_winograd4", run_winograd, check_winograd, true, true, winograd_prepared_bytes, prepare_winograd},
      {"conv_f32_depthwise", run_depthwise, check_depthwise, true, true},
      {"conv_f32_plain", run_plain, check_plain, false, false},
  };
  return kTable;
}

}  // namespace kiln::ops::conv
