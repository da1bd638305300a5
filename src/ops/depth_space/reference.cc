#include "ops/depth_space/depth_space.h"
#include "ops/index.h"
#include "ops/kernel.h"

namespace kiln::ops::depth_space {

void depth_space_reference(const KernelArgs& args) {
  const auto& p = args.params_as<DepthSpaceParams>();
  const SpaceAxes axes(p.is_nhwc != 0);
  const TensorRef& deep = p.to_depth ? args.out[0] : args.in[0];
  const TensorRef& wide = p.to_depth ? args.in[0] : args.out[0];
  const int64_t block = p.block;
  const int64_t channels = wide.dims[axes.c];
  const int64_t n = wide.num_elements();
  for (int64_t k = 0; k < n; ++k) {
    int64_t index[kMaxRank];
    unravel(wide, k, index);
    const int64_t i = index[axes.h] % block;
    const int64_t j = index[axes.w] % block;
    const int64_t c = index[axes.c];
    index[axes.c] = p.is_crd ? (c * block + i) * block + j : (i * block + j) * channels + c;
    index[axes.h] /= block;
    index[axes.w] /= block;
    const int64_t d = offset_of(deep, index);
    if (p.to_depth)
      copy_item(deep, d, wide, k);
    else
      copy_item(wide, k, deep, d);
  }
}

}  // namespace kiln::ops::depth_space
