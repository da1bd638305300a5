// The rewriting passes of the compiler, in the order in which they run.
#pragma once

#include <vector>

#include "compile/compile.h"

namespace kiln {

std::vector<Pass> builtin_passes();

}  // namespace kiln
