#include "passes/pipeline.h"

#include "passes/choose_winograd.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/drop_identity.h"
#include "passes/expand_qlinear.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_pad.h"
#include "passes/fold_space_to_depth.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_quantized.h"
#include "passes/fuse_residual.h"
#include "passes/lower_arithmetic.h"
#include "passes/lower_batch_norm.h"
#include "passes/merge_concats.h"
#include "passes/merge_reshapes.h"
#include "passes/name_activations.h"
#include "passes/nhwc_layout.h"
#include "passes/planar_input.h"
#include "passes/push_transposes.h"
#include "passes/views.h"

namespace kiln {

std::vector<Pass> builtin_passes() {
  return {
      // What the exporter left over.
      {"dce", dce},
      {"drop_identity", drop_identity},
      {"cse", cse},
      {"expand_qlinear", expand_qlinear},
      // Fewer and larger operators; batch norms before activations, so that nothing stands between them and
      // the convolution.
      {"name_activations", name_activations},
      {"fold_batch_norm", fold_batch_norm},
      {"lower_batch_norm", lower_batch_norm},
      {"lower_arithmetic", lower_arithmetic},
      {"fold_pad", fold_pad},
      {"fold_space_to_depth", fold_space_to_depth},
      {"fuse_activation", fuse_activation},
      {"fuse_residual", fuse_residual},
      // Layout.
      {"merge_reshapes", merge_reshapes},
      {"nhwc_layout", nhwc_layout},
      {"push_transposes", push_transposes},
      {"planar_input", planar_input},
      {"merge_reshapes_again", merge_reshapes},
      {"drop_identity_again", drop_identity},
      // What needs no step.
      {"merge_concats", merge_concats},
      {"cse_again", cse},
      {"dce_again", dce},
      // 8-bit numbers; the driver puts `quantize` before.
      {"fuse_quantized", fuse_quantized},
      {"dce_quantized", dce},
      // Which kernel, and where it writes.
      {"choose_winograd", choose_winograd},
      {"views", views},
  };
}

}  // namespace kiln
