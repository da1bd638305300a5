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
// Arena, weights and expanded halves are one block each, so that without this a kernel that reads past its tensor would
// go unnoticed.
class MemoryGuard {
 public:
  using Bytes = std::span<const uint8_t>;

  MemoryGuard(Bytes arena, Bytes weights, Bytes expanded) : blocks_{arena, weights, expanded} {
    for (const Bytes& block : blocks_) __asan_poison_memory_region(block.data(), block.size());
  }
  ~MemoryGuard() {
    for (const Bytes& block : blocks_) __asan_unpoison_memory_region(block.data(), block.size());
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

  const Bytes blocks_[3];
};
#else
class MemoryGuard {
 public:
  MemoryGuard(std::span<const uint8_t>, std::span<const uint8_t>, std::span<const uint8_t>) {}
  void open(const KernelArgs&) const {}
  void close(const KernelArgs&) const {}
};
#endif

}  // namespace kiln
