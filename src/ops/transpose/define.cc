#include "ops/constants.h"
#include "ops/transpose/transpose.h"

namespace kiln::ops::transpose {

void transpose_reference(const KernelArgs& args);

namespace {

std::vector<int64_t> read_perm(const NodeView& node) {
  std::vector<int64_t> perm = node.attr_ints("perm");
  if (!node.has_attr("perm")) {
    for (int i = node.input_shape(0).rank - 1; i >= 0; --i) perm.push_back(i);
  }
  return perm;
}

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  const Shape& shape = node.input_shape(0);
  const std::vector<int64_t> perm = read_perm(node);
  bool seen[kMaxRank] = {};
  bool valid = static_cast<int>(perm.size()) == shape.rank;
  for (size_t i = 0; valid && i < perm.size(); ++i) {
    valid = perm[i] >= 0 && perm[i] < shape.rank && !seen[perm[i]];
    if (valid) seen[perm[i]] = true;
  }
  if (!valid) {
    out.invalid("perm", print_ints(perm), strf("a permutation of 0 to %d", shape.rank - 1));
    return;
  }
  Shape result;
  for (int64_t axis : perm) result.push_back(shape[static_cast<int>(axis)]);
  out.set_output(0, node.input_dtype(0), result);
}

ParamBytes make_params(const NodeView& node) {
  TransposeParams params;
  const std::vector<int64_t> perm = read_perm(node);
  for (size_t i = 0; i < perm.size(); ++i) params.perm[i] = static_cast<int32_t>(perm[i]);
  return pack_params(params);
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"Transpose", "", 1, "out.dims[i] = in.dims[perm[i]]; perm; any dtype", infer, make_params, transpose_reference,
       "transpose", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::transpose
