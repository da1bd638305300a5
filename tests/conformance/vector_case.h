// One of ONNX's node test vectors: a model of one operator, inputs, expected outputs; run as users would run it.
#pragma once

#include <string>
#include <vector>

#include "compile/compile.h"

namespace kiln::conformance {

enum class Outcome { kPassed, kFailed, kSkipped };

struct CaseResult {
  std::string name;              // of the folder: "test_resize_tf_crop_and_resize"
  std::vector<std::string> ops;  // operators of the model, "domain.Op" outside ONNX's own domain
  int opset = 0;
  Outcome outcome = Outcome::kFailed;
  bool at_run_time = false;  // some step ran on the operator's inputs; otherwise it only folds
  std::string reason;        // why it failed or was skipped
};

// Compiles <folder>/model.onnx twice and runs both bundles on every test_data_set_*: with all inputs bound, so that it
// folds through reference kernels; and with only those inputs bound that the checker asks to be constant, so that the
// rest runs on the runtime kernels. Passed if both give the expected outputs (relative 1e-3, absolute 1e-5; NaN and
// infinities equal). Skipped if the model has an operator that is in no table.
CaseResult run_case(const std::string& folder, const CompilerTables& tables);

}  // namespace kiln::conformance
