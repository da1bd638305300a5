// In AddressSanitizer builds: while a step runs, only its own operands and scratch may be touched. Nothing
// elsewhere.
#pragma once

#include <cstdint>
#include <span>

#include "bundle/read.h"
#include "ops/kernel.h"

#if defined(__SANITIZE_ADDRESS__)
#define KILN_GUARD_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_GUARD_MEMORY 1
#endif
#endif

#ifdef KILN_GUARD_MEMORY
#include <sanitizer/asan_interface.h>
#endif

namespace kiln {

#ifdef KILN_GUARD_MEMORY
// Arena and weights are one block each, so that without this a kernel that reads past its tensor would go
// unnoticed.
class MemoryGuard {
 public:
  MemoryGuard(void* arena, uint64_t arena_bytes, std::span<const uint8_t> weights)
      : arena_(arena), arena_bytes_(arena_bytes), weights_(weights) {
    __asan_poison_memory_region(arena_, arena_bytes_);
    __asan_poison_memory_region(weights_.data(), weights_.size());
  }
  ~MemoryGuard() {
    __asan_unpoison_memory_region(arena_, arena_bytes_);
    __asan_unpoison_memory_region(weights_.data(), weights_.size());
  }
  void open(const KernelArgs& args) const { visit(args, __asan_unpoison_memory_region); }
  void close(const KernelArgs& args) const { visit(args, __asan_poison_memory_region); }

 private:
  static void visit(const KernelArgs& args, void (*mark)(void const volatile*, size_t)) {
    for (int i = 0; i < args.num_in; ++i) {
      if (args.in[i].present()) mark(args.in[i].data, span_bytes(args.in[i]));
    }
    for (int i = 0; i < args.num_out; ++i) {
      if (args.out[i].present()) mark(args.out[i].data, span_bytes(args.out[i]));
    }
    mark(args.scratch, args.scratch_bytes);
  }

  void* arena_;
  uint64_t arena_bytes_;
  std::span<const uint8_t> weights_;
};
#else
class MemoryGuard {
 public:
  MemoryGuard(void*, uint64_t, std::span<const uint8_t>) {}
  void open(const KernelArgs&) const {}
  void close(const KernelArgs&) const {}
};
#endif

}  // namespace kiln
