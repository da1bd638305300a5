// What the operator harness needs to run one kernel: random numbers, its prepared weights, a register tile.
#pragma once

#include <cstdlib>
#include <memory>

#include "cpu/gemm_tile.h"
#include "ops/kernel.h"

namespace kiln::test {

// SplitMix64 (Steele, Lea, Flood 2014): tiny, seedable, the same everywhere.
inline uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// A register tile for as long as this lives.
struct TileKernelChoice {
  const int32_t before = selected_tile_kernel();
  explicit TileKernelChoice(int32_t index) { select_tile_kernel(index); }
  ~TileKernelChoice() { select_tile_kernel(before); }
};

// What a kernel makes of its weights at load, as long as it says. The kernel runs while this lives.
class Prepared {
 public:
  Prepared(const KernelDef& kernel, KernelArgs& args) {
    if (kernel.prepare == nullptr) return;
    const size_t bytes = (kernel.prepared_bytes(args) + 63) / 64 * 64;
    memory_.reset(std::aligned_alloc(64, bytes));
    args.prepared = memory_.get();
    kernel.prepare(args);
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace kiln::test
