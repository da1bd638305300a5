#include <cmath>

#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/resize/resize.h"

namespace kiln::ops::resize {

void resize_reference(const KernelArgs& args) {
  const auto& p = args.params_as<ResizeParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  if (n == 0) return;
  AxisTaps taps[kMaxRank];
  for (int i = 0; i < y.rank; ++i) taps[i] = make_axis_taps(p, i, x.dims[i], y.dims[i]);
  for (int64_t o = 0; o < n; ++o) {
    int64_t index[kMaxRank], from[kMaxRank];
    unravel(y, o, index);
    if (p.mode == static_cast<int32_t>(Mode::kNearest)) {
      bool inside = true;
      for (int i = 0; i < y.rank; ++i) {
        from[i] = taps[i].index[static_cast<size_t>(index[i])];
        inside = inside && from[i] >= 0;
      }
      if (inside)
        copy_item(y, o, x, offset_of(x, from));
      else
        store_f64(y.dtype, y.data, o, p.extrapolation);
      continue;
    }
    double sum = 0;
    bool inside = true;
    int tap[kMaxRank] = {};
    for (int axis = 0; axis >= 0;) {
      double weight = 1;
      for (int i = 0; i < y.rank; ++i) {
        const size_t at = static_cast<size_t>(index[i] * taps[i].num_taps + tap[i]);
        from[i] = taps[i].index[at];
        inside = inside && from[i] >= 0;
        weight *= taps[i].weight[at];
      }
      if (!inside) break;
      if (weight != 0) sum += weight * element_as_f64(x.dtype, x.data, offset_of(x, from));
      for (axis = y.rank - 1; axis >= 0; --axis) {  // the next combination of taps
        if (++tap[axis] < taps[axis].num_taps) break;
        tap[axis] = 0;
      }
    }
    store_f64(y.dtype, y.data, o, inside ? sum : static_cast<double>(p.extrapolation));
  }
}

}  // namespace kiln::ops::resize
