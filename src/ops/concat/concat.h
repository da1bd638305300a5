// Concat: the inputs one behind the other along `axis`; any dtype. Attribute `view` = 1, set by a pass, says that the
// producers write into the output themselves, so that no step is needed.
#pragma once

#include <cstdint>

namespace kiln::ops::concat {

struct ConcatParams {
  int32_t axis = 0;
};

}  // namespace kiln::ops::concat
