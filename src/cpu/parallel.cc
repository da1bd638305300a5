#include "cpu/parallel.h"

namespace kiln {

const Parallel& serial_parallel() {
  static const Parallel serial{1, nullptr,
                               [](void*, int num_tiles, void (*task)(void*, int, int), void* context) {
                                 for (int tile = 0; tile < num_tiles; ++tile) task(context, tile, 0);
                               }};
  return serial;
}

}  // namespace kiln
