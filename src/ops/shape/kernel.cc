#include "ops/kernel_checks.h"

namespace kiln::ops::shape {

void eye_reference(const KernelArgs& args);

namespace {

Status check_eye(const KernelArgs& args) {
  KILN_TRY(check_params<int64_t>(args));
  KILN_TRY(check_operands(args, 0, 0, 1));
  KILN_TRY(check_layouts(args, true, true));
  if (args.out[0].rank != 2) return corrupt("eye_like: rank");
  return {};
}

}  // namespace

// All but EyeLike, whose input may be run-time data of which only the dims count, fold at compile time.
std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"eye_like", eye_reference, check_eye}};
  return kKernels;
}

}  // namespace kiln::ops::shape
