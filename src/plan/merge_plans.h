// Joins plans of one model at several input shapes into one plan with a profile each and one set of weights.
#pragma once

#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace kiln {

// Profiles keep the order of `plans`. Constants with equal contents are stored once. Metadata is the first
// plan's. kInvalidArgument if there is no plan, or if plans differ in the names or dtypes of their inputs and
// outputs.
Result<Plan> merge_plans(std::vector<Plan> plans);

}  // namespace kiln
