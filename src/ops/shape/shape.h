// Operators of shapes and constants: Shape, Size, Constant, ConstantOfShape, Range, EyeLike. All but EyeLike fold at
// compile time, since shapes are static: they have reference kernels only, and one that is left after folding is an
// error of the model (a value that depends on run-time data).
#pragma once

#include "ops/definition.h"

namespace kiln::ops::shape {

// The value of a Shape or Size node, which needs its input's type but not its elements. False for other operators and
// for inputs whose shape is not static. Attributes start and end (opset 15) count as in slicing.
bool fold_shape(const NodeView& node, Tensor* out);

}  // namespace kiln::ops::shape
