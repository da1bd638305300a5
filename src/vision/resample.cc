#include "vision/resample.h"

#include <algorithm>
#include <cmath>

namespace kiln {
namespace {

void add_two_taps(AxisTaps& taps, int32_t source, double centre, int32_t i) {
  const double low = std::floor(centre);
  const double fraction = centre - low;
  const auto first = static_cast<int32_t>(low);
  const int32_t a = std::clamp(first, 0, source - 1);
  const int32_t b = std::clamp(first + 1, 0, source - 1);
  taps.first[size_t(i)] = a;
  taps.count[size_t(i)] = b > a ? 2 : 1;
  float* weights = &taps.weights[size_t(i) * size_t(taps.max_taps)];
  weights[0] = b > a ? static_cast<float>(1 - fraction) : 1.0f;
  if (b > a) weights[1] = static_cast<float>(fraction);
}

void add_triangle(AxisTaps& taps, int32_t source, double centre, double ratio, int32_t i) {
  const double middle = centre + 0.5;  // in pixel edges
  const int32_t begin = std::max(0, static_cast<int32_t>(middle - ratio + 0.5));
  const int32_t end = std::min(source, static_cast<int32_t>(middle + ratio + 0.5));
  float* weights = &taps.weights[size_t(i) * size_t(taps.max_taps)];
  double sum = 0;
  for (int32_t s = begin; s < end; ++s) sum += std::max(0.0, 1 - std::fabs((s + 0.5 - middle) / ratio));
  for (int32_t s = begin; s < end; ++s) {
    weights[s - begin] = static_cast<float>(std::max(0.0, 1 - std::fabs((s + 0.5 - middle) / ratio)) / sum);
  }
  taps.first[size_t(i)] = begin;
  taps.count[size_t(i)] = end - begin;
}

}  // namespace

AxisTaps make_axis_taps(int32_t source, int32_t scaled, int32_t begin, int32_t size, bool antialias) {
  AxisTaps taps;
  const double ratio = static_cast<double>(source) / scaled;
  const bool triangle = antialias && ratio > 1;
  taps.max_taps = triangle ? static_cast<int32_t>(std::ceil(ratio)) * 2 + 1 : 2;
  taps.first.resize(size_t(size));
  taps.count.resize(size_t(size));
  taps.weights.assign(size_t(size) * size_t(taps.max_taps), 0.0f);
  for (int32_t i = 0; i < size; ++i) {
    const double centre = (begin + i + 0.5) * ratio - 0.5;
    if (triangle)
      add_triangle(taps, source, centre, ratio, i);
    else
      add_two_taps(taps, source, centre, i);
  }
  return taps;
}

}  // namespace kiln
