#include "base/status.h"

#include <cstdarg>
#include <cstdio>

namespace kiln {

const char* code_name(Code code) {
  static constexpr const char* kNames[] = {
      "OK",        "INVALID_ARGUMENT", "UNKNOWN_OPERATOR", "UNSUPPORTED", "INVALID_MODEL", "NOT_A_MODEL",
      "TRUNCATED", "CORRUPT",          "VERSION",          "SHAPE",       "OUT_OF_MEMORY", "ABORTED",
      "NOT_FOUND", "INTERNAL",
  };
  const auto index = static_cast<uint8_t>(code);
  return index < sizeof(kNames) / sizeof(kNames[0]) ? kNames[index] : "INTERNAL";
}

std::string strf(const char* format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, args);
  va_end(args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace kiln
