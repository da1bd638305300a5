// Compile side: the references of the operators that have no kernel, by way of their float operators.
#pragma once

#include "ops/qlinear/define_forms.h"

namespace kiln::ops::qlinear {

// The parameters that run_by_float wants.
ParamBytes params_by_float(const NodeView& node);

// Dequantises the inputs, runs the float operator's reference, quantises what it gives.
void run_by_float(const KernelArgs& args, const Form& form);

}  // namespace kiln::ops::qlinear
