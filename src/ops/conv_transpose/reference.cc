#include "ops/conv/geometry.h"
#include "ops/conv_transpose/conv_transpose.h"
#include "ops/kernel.h"

namespace kiln::ops::conv_transpose {

namespace {

// The input position that tap k adds to this output; -1 if there is none.
int32_t input_position(const ConvTransposeParams& p, int axis, int32_t out, int32_t tap, int32_t in_size) {
  const int64_t scaled = int64_t{out} + p.pad_begin[axis] - int64_t{tap} * p.dilation[axis];
  if (scaled < 0 || scaled % p.stride[axis] != 0 || scaled / p.stride[axis] >= in_size) return -1;
  return static_cast<int32_t>(scaled / p.stride[axis]);
}

}  // namespace

void conv_transpose_reference(const KernelArgs& args) {
  const auto& p = args.params_as<ConvTransposeParams>();
  const conv::Image x = conv::make_image(args.in[0], p.is_nhwc != 0);
  const conv::Image y = conv::make_image(args.out[0], p.is_nhwc != 0);
  const float* bias = args.num_in > 2 && args.in[2].present() ? args.in[2].as<float>() : nullptr;
  const int32_t group_in = x.c / p.group;
  const int32_t group_out = y.c / p.group;
  const int64_t taps = int64_t{p.kernel[0]} * p.kernel[1] * p.kernel[2];
  parallel_for(args.parallel, y.n * y.size[0] * y.size[1], [&](int tile, int) {
    const int32_t oh = tile % y.size[1];
    const int32_t od = tile / y.size[1] % y.size[0];
    const int32_t n = tile / y.size[1] / y.size[0];
    for (int32_t ow = 0; ow < y.size[2]; ++ow) {
      for (int32_t o = 0; o < y.c; ++o) {
        const int32_t first_channel = o / group_out * group_in;
        double sum = bias != nullptr ? bias[o] : 0;
        for (int64_t tap = 0; tap < taps; ++tap) {
          const auto kw = static_cast<int32_t>(tap % p.kernel[2]);
          const auto kh = static_cast<int32_t>(tap / p.kernel[2] % p.kernel[1]);
          const auto kd = static_cast<int32_t>(tap / p.kernel[2] / p.kernel[1]);
          const int32_t d = input_position(p, 0, od, kd, x.size[0]);
          const int32_t h = input_position(p, 1, oh, kh, x.size[1]);
          const int32_t v = input_position(p, 2, ow, kw, x.size[2]);
          if (d < 0 || h < 0 || v < 0) continue;
          const float* pixel =
              args.in[0].as<float>() + n * x.n_stride + d * x.stride[0] + h * x.stride[1] + v * x.stride[2];
          for (int32_t c = first_channel; c < first_channel + group_in; ++c) {
            const float weight = args.in[1].as<float>()[(int64_t{c} * group_out + o % group_out) * taps + tap];
            sum += static_cast<double>(pixel[c * x.c_stride]) * weight;
          }
        }
        float* to = args.out[0].as<float>() + n * y.n_stride + od * y.stride[0] + oh * y.stride[1] + ow * y.stride[2];
        to[o * y.c_stride] = static_cast<float>(apply_activation(p.activation, sum));
      }
    }
  });
}

}  // namespace kiln::ops::conv_transpose
