// Plain loops: operands in ONNX order, sums in 64 bits.
#include "ops/conv/geometry.h"
#include "ops/quant_conv/quant_conv.h"

namespace kiln::ops::quant_conv {

namespace {

int32_t byte_at(const TensorRef& x, int64_t offset) {
  return x.dtype == DType::kI8 ? x.as<int8_t>()[offset] : x.as<uint8_t>()[offset];
}

// Sum of x * w and of w over a window; outside the image x is its zero.
int64_t sum_window(const KernelArgs& args, const conv::Image& x, int32_t n, int32_t oh, int32_t ow, int32_t o,
                   int32_t group_out) {
  const auto& q = args.params_as<QuantConvParams>();
  const conv::ConvParams& p = q.conv;
  const int32_t group_in = x.c / p.group;
  const int32_t taps = p.kernel[1] * p.kernel[2];
  const int8_t* w = args.in[1].as<int8_t>() + static_cast<int64_t>(o) * group_in * taps;
  int64_t sum = 0;
  for (int32_t c = 0; c < group_in; ++c) {
    for (int32_t t = 0; t < taps; ++t) {
      const int32_t h = oh * p.stride[1] + t / p.kernel[2] * p.dilation[1] - p.pad_begin[1];
      const int32_t v = ow * p.stride[2] + t % p.kernel[2] * p.dilation[2] - p.pad_begin[2];
      const bool is_inside = h >= 0 && h < x.size[1] && v >= 0 && v < x.size[2];
      const int64_t offset = n * x.n_stride + h * x.stride[1] + v * x.stride[2] +
                             (static_cast<int64_t>(o) / group_out * group_in + c) * x.c_stride;
      const int32_t value = is_inside ? byte_at(args.in[0], offset) : q.x_zero;
      sum += int64_t{value - q.x_zero} * w[c * taps + t];
    }
  }
  return sum;
}

}  // namespace

void run_plain(const KernelArgs& args) {
  const auto& q = args.params_as<QuantConvParams>();
  const conv::Image x = conv::make_image(args.in[0], true);
  const conv::Image y = conv::make_image(args.out[0], true);
  const float* bias = args.in[2].present() ? args.in[2].as<float>() : nullptr;
  const bool has_residual = args.num_in > 3 && args.in[3].present();
  const TensorRef residual = has_residual ? args.in[3] : TensorRef{};
  QuantRescale rescale = make_rescale(q, args.out[0].dtype, residual.dtype);
  const int64_t item = args.out[0].dtype == DType::kF32 ? 4 : 1;
  for (int32_t row = 0; row < y.n * y.size[1] * y.size[2]; ++row) {
    const int32_t ow = row % y.size[2];
    const int32_t oh = row / y.size[2] % y.size[1];
    const int32_t n = row / y.size[2] / y.size[1];
    for (int32_t o = 0; o < y.c; ++o) {
      const float scale = args.in[4].as<float>()[o];
      const int64_t sum = sum_window(args, x, n, oh, ow, o, y.c / q.conv.group) +
                          column_bias(q, bias != nullptr ? bias[o] : 0, scale, 0);
      const float gain = args.num_in > 5 && args.in[5].present() ? args.in[5].as<float>()[o] : 1;
      const float multiplier = column_multiplier(q, scale) * (q.computes != 0 ? 1 : gain);
      const float out_gain = column_gain(q, gain);
      rescale.multiplier = &multiplier;
      rescale.gain = q.has_gains != 0 ? &out_gain : nullptr;
      const int64_t offset = static_cast<int64_t>(row) * y.c + o;
      const char* added = has_residual ? residual.as<char>() + offset : nullptr;
      rescale_sum(rescale, static_cast<int32_t>(static_cast<uint64_t>(sum)), 0, added,
                  args.out[0].as<char>() + offset * item);
    }
  }
}

}  // namespace kiln::ops::quant_conv
