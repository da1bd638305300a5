#include "cpu/pack_b.h"

#include <algorithm>
#include <cstring>

namespace kiln {

int32_t num_panels(int32_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

int64_t packed_b_floats(int64_t n, int64_t k) {
  int64_t floats = 0;
  if (__builtin_mul_overflow((n + kPanelColumns - 1) / kPanelColumns * kPanelColumns, k + 1, &floats)) return INT64_MAX;
  return floats;
}

void pack_b_panel(const SourceB& b, int32_t panel, float* packed) {
  float* out = packed + panel * kPanelColumns * (static_cast<int64_t>(b.k_outer) * b.k_inner + 1);
  const int32_t first = panel * kPanelColumns;
  const int32_t columns = std::min(kPanelColumns, b.n - first);
  for (int32_t j = 0; j < kPanelColumns; ++j) {
    out[j] = b.bias != nullptr && j < columns ? b.bias[(first + j) * b.bias_stride] * b.bias_scale : 0.0f;
  }
  out += kPanelColumns;
  const float* data = b.data + first * b.n_stride;
  const bool is_wide = b.n_stride == 1 && columns == kPanelColumns && b.scale == 1;
  for (int32_t outer = 0; outer < b.k_outer; ++outer) {
    const float* row = data + outer * b.outer_stride;
    for (int32_t inner = 0; inner < b.k_inner; ++inner, row += b.inner_stride, out += kPanelColumns) {
      if (is_wide) {
        std::memcpy(out, row, kPanelColumns * sizeof(float));
        continue;
      }
      for (int32_t j = 0; j < kPanelColumns; ++j) out[j] = j < columns ? row[j * b.n_stride] * b.scale : 0.0f;
    }
  }
}

void pack_b(const SourceB& b, const Parallel* parallel, float* packed) {
  parallel_for(parallel, num_panels(b.n), [&](int panel, int) { pack_b_panel(b, panel, packed); });
}

}  // namespace kiln
