// Stores the weights of a plan as IEEE halves, which the runtime expands at load: half the file, f32 kernels.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace kiln {

constexpr int64_t kFewestHalves = 256;         // elements of a constant; smaller ones stay f32
constexpr uint64_t kFullPart = 48;             // one in so many bytes of what could be halved stays f32
constexpr double kLargestTinyShare = 1 / 8.0;  // see store_halves

// Moves f32 constants from plan.weights to plan.halves, rounding to nearest even: those of at least kFewestHalves
// elements that only steps with MACs and Gathers read. Tables, grids and anchors stay. So do the smallest of the
// others, up to one byte in kFullPart: the first layers and depthwise ones, where rounding is felt most, since each
// of their few weights meets much of the data.
//
// A constant stays f32 if a half cannot hold it: if a number in it is infinite, NaN or rounds to more than 65504, or if
// more than kLargestTinyShare of those that are not 0 lose digits because they are smaller than 2^-14, a half's
// smallest normal number. The rest is within 2^-11 of what it was, relatively. Returns a sentence if any stays so.
//
// For the plan of all profiles: merge_plans comes before.
std::vector<std::string> store_halves(Plan& plan);

}  // namespace kiln
