// Mutations that know what a plan is: they reach kernels' checks, where changed bytes only reach the reader.
#pragma once

#include <random>

#include "plan/plan.h"

namespace kiln::fuzz {

// Changes one to three things in the first profile: parameters, dims, dtypes, ranks, strides, operands, scratch,
// constants. Half of the time the tensors are spread over a larger arena, so that those which have grown fit.
void mutate_plan(Plan& plan, std::mt19937& random);

}  // namespace kiln::fuzz
