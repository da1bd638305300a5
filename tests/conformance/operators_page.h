// docs/operators.md: what the operator table says of each operator, and how many vectors it passes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/definition.h"
#include "vector_case.h"

namespace kiln::conformance {

// `exceptions`: names of vectors that are not taken, with the reasons.
std::string print_operators_page(const OpRegistry& ops, const std::vector<CaseResult>& results,
                                 const std::map<std::string, std::string>& exceptions);

}  // namespace kiln::conformance
