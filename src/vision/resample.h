// Resampling weights of one axis: which source pixels make an output pixel, and how much of each.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

// Output i is sum over t < count[i] of weights[i * max_taps + t] * source[first[i] + t].
struct AxisTaps {
  int32_t max_taps = 0;
  std::vector<int32_t> first;
  std::vector<int32_t> count;
  std::vector<float> weights;
};

// Half-pixel centres: output i looks at (begin + i + 0.5) * source / scaled - 0.5 of the source.
// `scaled` is the size that the whole source is scaled to, of which outputs [begin, begin + size) are wanted.
// Two taps with clamped edges; or, with antialias and shrinking, a triangle of half-width source / scaled,
// normalised (Pillow, Resample.c: bilinear filter with support scaled by the ratio).
AxisTaps make_axis_taps(int32_t source, int32_t scaled, int32_t begin, int32_t size, bool antialias);

}  // namespace kiln
