// Says what a file is that should have been a bundle.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace kiln {

// OK if the bytes begin as a bundle does; otherwise kNotAModel or kTruncated, naming HTML pages, git-LFS
// pointers, ONNX …
Status check_is_bundle(std::span<const uint8_t> bytes);

}  // namespace kiln
