#include <algorithm>
#include <cmath>

#include "ops/resize/resize.h"

namespace kiln::ops::resize {
namespace {

// Where output position j lies on the input: ONNX's formulas, in f32 as inference engines compute them, so that ties
// and floors fall the same way.
float original_position(const ResizeParams& p, int axis, int64_t j, int64_t in_dim, int64_t out_dim) {
  const float scale = p.scale[axis];
  const float length = p.length[axis];
  const auto at = static_cast<float>(j);
  const auto in = static_cast<float>(in_dim);
  switch (static_cast<Coordinates>(p.coordinates)) {
    case Coordinates::kHalfPixel:
      return (at + 0.5f) / scale - 0.5f;
    case Coordinates::kHalfPixelSymmetric: {
      const float offset = in / 2 * (1 - static_cast<float>(out_dim) / length);
      return offset + (at + 0.5f) / scale - 0.5f;
    }
    case Coordinates::kPytorchHalfPixel:
      return out_dim > 1 ? (at + 0.5f) / scale - 0.5f : 0.0f;
    case Coordinates::kAlignCorners:
      return length > 1 ? at * (in - 1) / (length - 1) : 0.0f;
    case Coordinates::kAsymmetric:
      return at / scale;
    case Coordinates::kTfCropAndResize: {
      const float start = p.roi_start[axis];
      const float end = p.roi_end[axis];
      return length > 1 ? start * (in - 1) + at * (end - start) * (in - 1) / (length - 1)
                        : 0.5f * (start + end) * (in - 1);
    }
    case Coordinates::kTfHalfPixelForNn:
      return (at + 0.5f) / scale;
  }
  return at;
}

// Float to integer without overflow; NaN gives 0.
int64_t to_position(double value) {
  if (!(value > -1e9)) return value <= -1e9 ? -1000000000 : 0;
  return value < 1e9 ? static_cast<int64_t>(value) : 1000000000;
}

int64_t round_position(Rounding rounding, float x, float scale) {
  switch (rounding) {
    case Rounding::kPreferFloor:
      return to_position(std::ceil(double(x) - 0.5));
    case Rounding::kPreferCeil:
      return to_position(std::floor(double(x) + 0.5));
    case Rounding::kFloor:
      return to_position(std::floor(x));
    case Rounding::kCeil:
      return to_position(std::ceil(x));
    case Rounding::kSimple:
      return to_position(scale < 1 ? std::ceil(x) : std::floor(x));
  }
  return 0;
}

// The triangle (linear) and Keys' cubic convolution kernel with parameter a (IEEE ASSP-29, 1981).
double tap_weight(Mode mode, double distance, double a) {
  const double x = std::fabs(distance);
  if (mode == Mode::kLinear) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

}  // namespace

bool AxisTaps::is_identity(int64_t in_dim) const {
  const size_t taps = static_cast<size_t>(num_taps);
  if (index.size() != static_cast<size_t>(in_dim) * taps) return false;
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0) return false;
    if (index[i] == static_cast<int32_t>(i / taps)) continue;
    if (weight[i] != 0) return false;
  }
  for (size_t j = 0; j < static_cast<size_t>(in_dim); ++j) {
    float sum = 0;
    for (size_t t = 0; t < taps; ++t) sum += weight[j * taps + t];
    if (sum != 1) return false;
  }
  return true;
}

AxisTaps make_axis_taps(const ResizeParams& p, int axis, int64_t in_dim, int64_t out_dim) {
  const auto mode = static_cast<Mode>(p.mode);
  const bool crops = static_cast<Coordinates>(p.coordinates) == Coordinates::kTfCropAndResize;
  // With antialias the filter is stretched by 1 / scale when reducing.
  const double stretch = p.antialias && p.scale[axis] < 1 ? static_cast<double>(p.scale[axis]) : 1.0;
  const double reach = mode == Mode::kCubic ? 2 : 1;
  const int64_t first = mode == Mode::kNearest ? 0 : static_cast<int64_t>(std::floor(-reach / stretch)) + 1;
  AxisTaps taps;
  taps.num_taps = mode == Mode::kNearest ? 1 : static_cast<int>(2 - 2 * first);
  const size_t size = static_cast<size_t>(out_dim) * static_cast<size_t>(taps.num_taps);
  taps.index.assign(size, 0);
  taps.weight.assign(size, 0);
  std::vector<double> weights(static_cast<size_t>(taps.num_taps));
  for (int64_t j = 0; j < out_dim; ++j) {
    int32_t* index = taps.index.data() + j * taps.num_taps;
    float* weight = taps.weight.data() + j * taps.num_taps;
    const float x = original_position(p, axis, j, in_dim, out_dim);
    if (crops && !(x >= 0 && x <= static_cast<float>(in_dim - 1))) {
      std::fill(index, index + taps.num_taps, -1);
      weight[0] = 1;
      continue;
    }
    if (mode == Mode::kNearest) {
      const int64_t at = round_position(static_cast<Rounding>(p.rounding), x, p.scale[axis]);
      index[0] = static_cast<int32_t>(std::clamp<int64_t>(at, 0, in_dim - 1));
      weight[0] = 1;
      continue;
    }
    const int64_t base = to_position(std::floor(x));
    double sum = 0;
    for (int t = 0; t < taps.num_taps; ++t) {
      const int64_t at = base + first + t;
      double w = tap_weight(mode, (static_cast<double>(at) - x) * stretch, p.cubic_a);
      if (p.exclude_outside && (at < 0 || at >= in_dim)) w = 0;
      weights[static_cast<size_t>(t)] = w;
      sum += w;
      index[t] = static_cast<int32_t>(std::clamp<int64_t>(at, 0, in_dim - 1));
    }
    const bool normalize = (p.exclude_outside || stretch < 1) && sum != 0;
    for (int t = 0; t < taps.num_taps; ++t) {
      weight[t] =
          static_cast<float>(normalize ? weights[static_cast<size_t>(t)] / sum : weights[static_cast<size_t>(t)]);
    }
  }
  return taps;
}

}  // namespace kiln::ops::resize
