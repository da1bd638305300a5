// Writes a plan as the bytes of a bundle file.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace kiln {

// Equal plans give equal bytes, on every machine. The plan must be one that make_plan or merge_plans made.
std::vector<uint8_t> write_bundle(const Plan& plan);

}  // namespace kiln
