#include "cpu/worker_stack.h"

namespace kiln {
namespace {

constexpr uint32_t kPattern = 0x6b696c6e;

}  // namespace

void write_stack_guard(void* block) {
  auto* words = static_cast<uint32_t*>(block);
  for (size_t i = 0; i < kStackGuardBytes / sizeof(uint32_t); ++i) words[i] = kPattern;
}

bool is_stack_guard_whole(const void* block) {
  const auto* words = static_cast<const uint32_t*>(block);
  for (size_t i = 0; i < kStackGuardBytes / sizeof(uint32_t); ++i) {
    if (words[i] != kPattern) return false;
  }
  return true;
}

}  // namespace kiln
