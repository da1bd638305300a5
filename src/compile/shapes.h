// Fixes the free dims of graph inputs: one set of static shapes a profile.
#pragma once

#include "compile/compile.h"

namespace kiln {

using InputShapes = std::map<std::string, Shape>;  // by the name of the input

struct ProfileShapes {
  std::vector<InputShapes> profiles;  // at least one if there are no problems
  std::vector<Problem> problems;
  std::vector<std::string> notices;
};

constexpr size_t kMaxProfiles = 256;

// Each --input-shape flag is a profile (none = one profile of the model's own shapes); --dynamic-batch and
// --dynamic-size make several of each by filling in free batch dims (axis 0) and free image sizes (the two free dims of
// a 4-D input). Free dims that have the same name in the model get the same number. A batch dim that is still free
// becomes 1, with a notice; any other free dim is a problem whose message prints the flag to add.
ProfileShapes resolve_shapes(const ImportedModel& model, const CompileOptions& options);

}  // namespace kiln
