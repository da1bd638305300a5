// What `inspect` tells of a model and of a bundle, as text and as JSON.
#pragma once

#include <string>

#include "compile/compile.h"

namespace kiln {

// `result` is compile_model's, whether it succeeded or not.
std::string describe_model(const CompileResult& result);
std::string describe_model_json(const CompileResult& result);

std::string describe_bundle(const Plan& plan, uint64_t file_bytes);
std::string describe_bundle_json(const Plan& plan, uint64_t file_bytes);

}  // namespace kiln
