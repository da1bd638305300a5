// Cast and CastLike: y = x in another element type. Floats truncate towards zero to integers (saturating at
// 64 bits, then wrapping), everything but 0 is true, floats round to nearest even.
#pragma once

namespace kiln::ops::cast {

// cast_any has no parameters: the operands' dtypes say it all.

}  // namespace kiln::ops::cast
