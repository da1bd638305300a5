// Normalisations: BatchNormalization, InstanceNormalization, LayerNormalization, LRN,
// MeanVarianceNormalization.
//
// Images are seen as (outer, channels, inner) or, with layout NHWC, as (outer, inner, channels).
#pragma once

#include <cstdint>

namespace kiln::ops::norm {

struct ImageSplit {
  int32_t outer = 0;
  int32_t channels = 0;
  int32_t inner = 0;
  int32_t is_nhwc = 0;
};

// y = scale[c] * (x - mean[c]) / sqrt(var[c] + epsilon) + bias[c]. Operands: x, scale, bias, mean, var.
// training: mean and var are those of x over outer and inner; outputs 1 and 2 are the running statistics
// momentum * input + (1 - momentum) * of x.
struct BatchNormParams {
  ImageSplit image;
  int32_t training = 0;
  float epsilon = 0;
  float momentum = 0;
};

// The same per sample and channel, mean and var over inner. Operands: x, scale, bias.
struct InstanceNormParams {
  ImageSplit image;
  float epsilon = 0;
};

// Rows of n: y = scale[i] * (x - mean) / sqrt(var + epsilon) + bias[i]; bias optional. Outputs: y, mean, 1 /
// sqrt(var + epsilon), the latter two optional, one element a row.
struct LayerNormParams {
  int32_t rows = 0;
  int32_t n = 0;
  float epsilon = 0;
};

// y = x / (bias + alpha / size * sum of x^2 over the `size` channels around)^beta
struct LrnParams {
  ImageSplit image;
  int32_t size = 0;
  float alpha = 0;
  float beta = 0;
  float bias = 0;
};

// y = (x - mean) / (standard deviation + 1e-9) over the axes of the mask.
struct MeanVarianceNormParams {
  int32_t axes_mask = 0;
};

// Channels that LRN sums over for channel c: [begin, end).
inline void lrn_window(const LrnParams& p, int32_t c, int32_t* begin, int32_t* end) {
  const int64_t first = int64_t{c} - (p.size - 1) / 2;
  const int64_t last = int64_t{c} + p.size / 2;
  *begin = static_cast<int32_t>(first < 0 ? 0 : first);
  *end = static_cast<int32_t>(last >= p.image.channels ? p.image.channels : last + 1);
}

}  // namespace kiln::ops::norm
