// Writing JSON: strings and numbers in one fixed form, so that equal data gives equal bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/definition.h"

namespace kiln {

// Quoted and escaped; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// The shortest decimal that reads back as the same double; null for what JSON has not.
std::string json_number(double value);
std::string json_strings(const std::vector<std::string>& texts);
std::string json_ints(const std::vector<int64_t>& values);

// [{"code": "UNSUPPORTED", "node": …, "op": …, "opset": …, "attribute": …, "value": …, "supported": …, "message": …},
// …]
std::string json_problems(const std::vector<Problem>& problems);

}  // namespace kiln
