#include "cpu/strided_copy.h"
#include "ops/depth_space/depth_space.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::depth_space {
namespace {

void run(const KernelArgs& args) {
  const auto& p = args.params_as<DepthSpaceParams>();
  const SpaceAxes axes(p.is_nhwc != 0);
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const TensorRef& deep = p.to_depth ? y : x;
  const TensorRef& wide = p.to_depth ? x : y;
  if (y.num_elements() == 0) return;
  const ptrdiff_t block = p.block;
  const ptrdiff_t channels = wide.dims[axes.c];
  // A loop each over n, c, h, w and the position (i, j) in a block; strides on the deep and on the wide side.
  const ptrdiff_t c_stride = deep.strides[axes.c];
  const struct {
    ptrdiff_t count, deep_stride, wide_stride;
  } loops[] = {
      {wide.dims[0], deep.strides[0], wide.strides[0]},
      {channels, (p.is_crd ? block * block : 1) * c_stride, wide.strides[axes.c]},
      {deep.dims[axes.h], deep.strides[axes.h], block * wide.strides[axes.h]},
      {deep.dims[axes.w], deep.strides[axes.w], block * wide.strides[axes.w]},
      {block, (p.is_crd ? block : block * channels) * c_stride, wide.strides[axes.h]},
      {block, (p.is_crd ? 1 : channels) * c_stride, wide.strides[axes.w]},
  };
  StridedCopy copy;
  for (const auto& loop : loops) {
    if (p.to_depth)
      copy.add(loop.count, loop.wide_stride, loop.deep_stride);
    else
      copy.add(loop.count, loop.deep_stride, loop.wide_stride);
  }
  strided_copy(args.parallel, copy, x.data, y.data, item_bytes(x));
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_params<DepthSpaceParams>(args));
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layouts(args, false, false));
  const auto& p = args.params_as<DepthSpaceParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank != 4 || y.rank != 4) return corrupt("depth_space: dtype or rank");
  if (p.block < 1 || p.block > 65536 || (p.to_depth && p.is_crd)) return corrupt("depth_space: parameters");
  const SpaceAxes axes(p.is_nhwc != 0);
  const TensorRef& deep = p.to_depth ? y : x;
  const TensorRef& wide = p.to_depth ? x : y;
  const int64_t block = p.block;
  // Both products stay below 2^63 with block <= 2^16 and dims < 2^31.
  if (deep.dims[0] != wide.dims[0] || deep.dims[axes.c] != wide.dims[axes.c] * block * block ||
      deep.dims[axes.h] * block != wide.dims[axes.h] || deep.dims[axes.w] * block != wide.dims[axes.w]) {
    return corrupt("depth_space: dims do not match");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"depth_space", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::depth_space
