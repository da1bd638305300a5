#include "ops/conv/geometry.h"

namespace kiln::ops::conv {

Image make_image(const TensorRef& tensor, bool is_nhwc) {
  Image image;
  const int spatial = tensor.rank - 2;
  const int channel_axis = is_nhwc ? tensor.rank - 1 : 1;
  const int first = is_nhwc ? 1 : 2;
  image.n = tensor.dims[0];
  image.n_stride = tensor.strides[0];
  image.c = tensor.dims[channel_axis];
  image.c_stride = tensor.strides[channel_axis];
  for (int i = 0; i < spatial; ++i) {
    image.size[3 - spatial + i] = tensor.dims[first + i];
    image.stride[3 - spatial + i] = tensor.strides[first + i];
  }
  return image;
}

void run_plain(const KernelArgs& args) {
  const auto& p = args.params_as<ConvParams>();
  const Image x = make_image(args.in[0], p.input_is_nhwc != 0);
  const Image y = make_image(args.out[0], p.output_is_nhwc != 0);
  const float* w = args.in[1].as<float>();
  const float* bias = args.num_in > 2 && args.in[2].present() ? args.in[2].as<float>() : nullptr;
  const float* residual = p.residual != 0 ? args.in[3].as<float>() : nullptr;
  const Image r = p.residual != 0 ? make_image(args.in[3], p.output_is_nhwc != 0) : Image{};
  const int32_t group_in = x.c / p.group;
  const int32_t group_out = y.c / p.group;
  const int64_t taps = static_cast<int64_t>(p.kernel[0]) * p.kernel[1] * p.kernel[2];

  parallel_for(args.parallel, y.n * y.size[0] * y.size[1], [&](int tile, int) {
    const int32_t oh = tile % y.size[1];
    const int32_t od = tile / y.size[1] % y.size[0];
    const int32_t n = tile / y.size[1] / y.size[0];
    for (int32_t ow = 0; ow < y.size[2]; ++ow) {
      for (int32_t o = 0; o < y.c; ++o) {
        const int32_t group = o / group_out;
        const float* image =
            args.in[0].as<float>() + n * x.n_stride + static_cast<int64_t>(group) * group_in * x.c_stride;
        double sum = bias != nullptr ? bias[o] : 0;
        for (int32_t kd = 0; kd < p.kernel[0]; ++kd) {
          const int32_t d = od * p.stride[0] + kd * p.dilation[0] - p.pad_begin[0];
          if (d < 0 || d >= x.size[0]) continue;
          for (int32_t kh = 0; kh < p.kernel[1]; ++kh) {
            const int32_t h = oh * p.stride[1] + kh * p.dilation[1] - p.pad_begin[1];
            if (h < 0 || h >= x.size[1]) continue;
            for (int32_t kw = 0; kw < p.kernel[2]; ++kw) {
              const int32_t v = ow * p.stride[2] + kw * p.dilation[2] - p.pad_begin[2];
              if (v < 0 || v >= x.size[2]) continue;
              const float* pixel = image + d * x.stride[0] + h * x.stride[1] + v * x.stride[2];
              const float* weight =
                  w + o * group_in * taps + (static_cast<int64_t>(kd) * p.kernel[1] + kh) * p.kernel[2] + kw;
              for (int32_t c = 0; c < group_in; ++c) {
                sum += static_cast<double>(pixel[c * x.c_stride]) * weight[c * taps];
              }
            }
          }
        }
        const double added =
            residual == nullptr
                ? 0
                : residual[n * r.n_stride + od * r.stride[0] + oh * r.stride[1] + ow * r.stride[2] + o * r.c_stride];
        const bool is_after = p.residual == static_cast<int32_t>(Residual::kAfterActivation);
        const double value =
            is_after ? apply_activation(p.activation, sum) + added : apply_activation(p.activation, sum + added);
        args.out[0]
            .as<float>()[n * y.n_stride + od * y.stride[0] + oh * y.stride[1] + ow * y.stride[2] + o * y.c_stride] =
            static_cast<float>(value);
      }
    }
  });
}

}  // namespace kiln::ops::conv
