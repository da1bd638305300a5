// SHA-256 (FIPS 180-4): names a model file or a constant by its contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kiln {

// The digest as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const uint8_t> bytes);

}  // namespace kiln
