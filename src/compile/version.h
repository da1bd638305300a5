// The version that bundles carry; the same as package.json's and CMakeLists.txt's.
#pragma once

namespace kiln {

constexpr const char* kVersion = "0.1.0";

}  // namespace kiln
