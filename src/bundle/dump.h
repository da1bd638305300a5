// A plan as text: inputs and outputs, steps, and a map of the arena. What `inspect` and --stage plan print.
#pragma once

#include <string>

#include "plan/plan.h"

namespace kiln {

// Everything but the weights' bytes; golden tests compare it.
std::string print_plan(const Plan& plan);

// The tensors of the arena by offset, with the steps they live in, drawn as bars:
//
//   offset      bytes  steps    name
//        0     602112  0-1      stem/out               ##........
std::string print_arena_map(const PlanProfile& profile);

}  // namespace kiln
