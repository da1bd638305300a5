#include "ops/index.h"
#include "ops/kernel.h"
#include "ops/pad/pad.h"

namespace kiln::ops::pad {

// Operands in ONNX order: data, pads, constant_value, axes.
void pad_reference(const KernelArgs& args) {
  const auto& p = args.params_as<PadParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const bool has_value = args.num_in > 2 && args.in[2].present();
  const int64_t n = y.num_elements();
  for (int64_t o = 0; o < n; ++o) {
    int64_t index[kMaxRank];
    unravel(y, o, index);
    bool inside = true;
    for (int k = 0; k < y.rank; ++k) {
      index[k] = pad_source(static_cast<PadMode>(p.mode), index[k], p.begin[k], x.dims[k]);
      inside = inside && index[k] >= 0;
    }
    if (inside)
      copy_item(y, o, x, offset_of(x, index));
    else if (has_value)
      copy_item(y, o, args.in[2], 0);
    else
      std::memcpy(mutable_item_at(y, o), p.value, dtype_bytes(y.dtype));
  }
}

}  // namespace kiln::ops::pad
