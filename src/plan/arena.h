// Gives buffers with known lifetimes their places in one arena.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

constexpr uint64_t kArenaAlignment = 64;

// A buffer of the arena. It is alive in steps [first, last]; -1 is the time before the first step, when
// inputs are written, and the number of steps the time after the last, when outputs are read.
struct ArenaBuffer {
  uint64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
  uint64_t offset = 0;  // set by place_buffers
};

struct ArenaSize {
  uint64_t arena_bytes = 0;      // where the last buffer ends
  uint64_t peak_live_bytes = 0;  // the largest sum of buffers alive at one time: no arena can be smaller
};

// Sets every offset (a multiple of 64) such that buffers alive at the same time lie apart. Inputs lie apart
// from outputs too: the next picture can be written while the last result is still being read.
//
// Greedy by size: take buffers from the largest to the smallest; look at those already placed whose lifetimes
// meet this one's, in order of offset; of the gaps between them that hold it take the tightest, else the end.
// The largest buffers, which decide about the arena's size, are packed first; small ones fill what is left.
// Quadratic in the number of buffers, and no bound on the result is known, but for networks it comes out
// within a few per cent of the peak. Where it does not, a second order (bytes times lifetime) is tried, and
// the better of the two kept. Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
// Inference", 2020, section 5.2 (TensorFlow Lite; the planner of TFLite-Micro takes the first gap instead of
// the tightest).
ArenaSize place_buffers(std::vector<ArenaBuffer>& buffers, int32_t num_steps);

}  // namespace kiln
