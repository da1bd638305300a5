#include "ops/constants.h"
#include "ops/depth_space/depth_space.h"

namespace kiln::ops::depth_space {

void depth_space_reference(const KernelArgs& args);

namespace {

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1)) return;
  const Shape& shape = node.input_shape(0);
  if (shape.rank != 4) {
    out.invalid("rank", std::to_string(shape.rank), "4");
    return;
  }
  const int64_t block = node.attr_int("blocksize", 0);
  if (block < 1 || block > 1024) {
    out.invalid("blocksize", std::to_string(block), "1 to 1024");
    return;
  }
  const SpaceAxes axes(node.is_nhwc());
  Shape result = shape;
  if (node.node().op == "SpaceToDepth") {
    if (shape[axes.h] % block != 0 || shape[axes.w] % block != 0) {
      out.invalid("blocksize", std::to_string(block), "a divisor of height and width in " + print_shape(shape));
      return;
    }
    result[axes.c] = shape[axes.c] * block * block;
    result[axes.h] = shape[axes.h] / block;
    result[axes.w] = shape[axes.w] / block;
  } else {
    const std::string mode = node.attr_string("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") {
      out.invalid("mode", mode, "DCR or CRD");
      return;
    }
    if (shape[axes.c] % (block * block) != 0) {
      out.invalid("blocksize", std::to_string(block),
                  "a square that divides the channels " + std::to_string(shape[axes.c]));
      return;
    }
    result[axes.c] = shape[axes.c] / (block * block);
    result[axes.h] = shape[axes.h] * block;
    result[axes.w] = shape[axes.w] * block;
  }
  set_sized_output(out, 0, node.input_dtype(0), result);
}

ParamBytes make_params(const NodeView& node) {
  DepthSpaceParams params;
  params.block = static_cast<int32_t>(node.attr_int("blocksize", 1));
  params.to_depth = node.node().op == "SpaceToDepth";
  params.is_crd = !params.to_depth && node.attr_string("mode", "DCR") == "CRD";
  params.is_nhwc = node.is_nhwc();
  return pack_params(params);
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"DepthToSpace", "", 1, "blocks of channels become blocks of pixels; blocksize, mode DCR, CRD; any dtype", infer,
       make_params, depth_space_reference, "depth_space", nullptr},
      {"SpaceToDepth", "", 1, "blocks of pixels become channels; blocksize; any dtype", infer, make_params,
       depth_space_reference, "depth_space", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::depth_space
