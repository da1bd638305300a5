#include "cpu/parallel.h"

namespace kiln {

const Parallel& serial_parallel() {
  static const Parallel serial{1, nullptr, [](void*, int num_tiles, void (*task)(void*, int, int), void* context) {
                                 for (int tile = 0; tile < num_tiles; ++tile) task(context, tile, 0);
                               }};
  return serial;
}

void run_tiles(const Parallel* parallel, int num_tiles, void (*task)(void* context, int tile, int thread),
               void* context) {
  if (num_tiles <= 0) return;
  if (parallel->num_threads == 1 || num_tiles == 1) {
    for (int tile = 0; tile < num_tiles; ++tile) task(context, tile, 0);
  } else {
    parallel->run(parallel->self, num_tiles, task, context);
  }
}

}  // namespace kiln
