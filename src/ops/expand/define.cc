#include "ops/constants.h"

namespace kiln::ops::expand {

void repeat_reference(const KernelArgs& args);

namespace {

void infer_expand(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2)) return;
  const Tensor* tensor = out.need_constant(1, "shape");
  if (tensor == nullptr) return;
  const std::vector<int64_t> target = constant_ints(*tensor);
  if (target.size() > static_cast<size_t>(kMaxRank)) {
    out.unsupported("shape", print_ints(target), strf("up to %d dims", kMaxRank));
    return;
  }
  Shape shape;
  bool valid = true;
  for (int64_t dim : target) {
    valid = valid && dim >= 0;
    shape.push_back(dim);
  }
  Shape result;
  if (!valid || !broadcast_shapes(node.input_shape(0), shape, &result)) {
    out.invalid("shape", print_ints(target), "a shape that " + print_shape(node.input_shape(0)) + " broadcasts with");
    return;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

void infer_tile(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 2)) return;
  const Tensor* tensor = out.need_constant(1, "repeats");
  if (tensor == nullptr) return;
  const std::vector<int64_t> repeats = constant_ints(*tensor);
  Shape result = node.input_shape(0);
  bool valid = static_cast<int>(repeats.size()) == result.rank;
  for (int i = 0; valid && i < result.rank; ++i) {
    valid = repeats[size_t(i)] >= 0;
    if (!valid || (result[i] != 0 && repeats[size_t(i)] > INT32_MAX / result[i])) {
      if (valid) {
        out.unsupported("repeats", print_ints(repeats), "fewer than 2^31 elements");
        return;
      }
    } else {
      result[i] *= repeats[size_t(i)];
    }
  }
  if (!valid) {
    out.invalid("repeats", print_ints(repeats), strf("%d numbers >= 0", result.rank));
    return;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

Status lower(const NodeView& node, Lowering& out) { return lower_to(node, out, "repeat", {}, {0}); }

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Expand", "", 8, "broadcasts to `shape`; any dtype", infer_expand, nullptr, repeat_reference, "repeat", lower},
      {"Tile", "", 6, "the tensor `repeats` times along each axis; any dtype", infer_tile, nullptr, repeat_reference,
       "repeat", lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::expand
