#include "ops/definition.h"
#include "ops/where/where.h"

namespace kiln::ops::where {

void where_reference(const KernelArgs& args);

namespace {

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(3, 3) || !out.check_dtype(0, {DType::kBool})) return;
  if (node.input_dtype(1) != node.input_dtype(2)) {
    out.invalid("dtype of input 2", dtype_name(node.input_dtype(2)),
                strf("%s as input 1", dtype_name(node.input_dtype(1))));
    return;
  }
  Shape shape = node.input_shape(0);
  for (int i = 1; i < 3; ++i) {
    if (!broadcast_shapes(shape, node.input_shape(i), &shape)) {
      out.invalid("shape of input", print_shape(node.input_shape(i)), "one that broadcasts with " + print_shape(shape));
      return;
    }
  }
  out.set_output(0, node.input_dtype(1), shape);
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Where", "", 9, "y = condition ? a : b, NumPy broadcasting; every dtype but strings", infer, nullptr,
       where_reference, "where_any", nullptr, true},
  };
  return kDefs;
}

}  // namespace kiln::ops::where
