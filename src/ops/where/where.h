// Where: y = condition ? a : b, all three broadcast as NumPy does.
#pragma once

namespace kiln::ops::where {

// where_any has no parameters; it moves elements of 1, 2, 4 or 8 bytes whatever they mean.

}  // namespace kiln::ops::where
