#include "ops/kernel.h"

namespace kiln::ops::shape {

// All of these fold at compile time.
std::span<const KernelDef> kernels() { return {}; }

}  // namespace kiln::ops::shape
