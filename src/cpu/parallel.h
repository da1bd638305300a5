// How kernels ask for threads: a fork-join over numbered tiles. The serial implementation runs them in order;
// thread_pool.h has the other.
#pragma once

#include <cstdint>
#include <type_traits>

namespace kiln {

// `run` calls task(context, tile, thread) once for each tile in [0, num_tiles), on any thread in [0,
// num_threads), and returns when all are done. Kernels must give the same bits for any num_threads: they may cut
// their work by it, but what an output is made of does not depend on the cut.
struct Parallel {
  int num_threads = 1;
  void* self = nullptr;
  void (*run)(void* self, int num_tiles, void (*task)(void* context, int tile, int thread), void* context) = nullptr;
};

// One thread: the tiles in order on the caller.
const Parallel& serial_parallel();

// task(context, tile, thread) for every tile. Out of line, so that a kernel's loop body is compiled once and
// not a second time for one thread.
void run_tiles(const Parallel* parallel, int num_tiles, void (*task)(void* context, int tile, int thread),
               void* context);

// parallel_for(args.parallel, n, [&](int tile, int thread) { … });
template <typename F>
void parallel_for(const Parallel* parallel, int num_tiles, F&& body) {
  using Body = std::remove_reference_t<F>;
  run_tiles(
      parallel, num_tiles, [](void* context, int tile, int thread) { (*static_cast<Body*>(context))(tile, thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// The same for tiles that need scratch: body(tile, slot), where no two calls have one slot in [0, num_slots) at a time.
template <typename F>
void parallel_for_slots(const Parallel* parallel, int num_tiles, int num_slots, F&& body) {
  if (parallel->num_threads <= num_slots) {
    parallel_for(parallel, num_tiles, body);
    return;
  }
  parallel_for(parallel, num_slots, [&](int slot, int) {
    for (int tile = slot; tile < num_tiles; tile += num_slots) body(tile, slot);
  });
}

}  // namespace kiln
