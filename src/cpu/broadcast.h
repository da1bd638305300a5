// How elementwise kernels walk operands that broadcast to an output: dims merged, tiles cut, addresses as
// strides.
#pragma once

#include <cstdint>

#include "base/tensor.h"
#include "cpu/parallel.h"

namespace kiln {

constexpr int kMaxLoopOperands = 4;  // the output and up to three inputs

// A rectangle of elements: `rows` rows of `n`. Element (r, i) of operand k lies at
// offset[k] + r * row_stride[k] + i * stride[k]; strides are in elements, 0 where the operand is broadcast.
struct LoopBlock {
  int64_t rows = 0;
  int64_t n = 0;
  int64_t offset[kMaxLoopOperands] = {};
  int64_t row_stride[kMaxLoopOperands] = {};
  int64_t stride[kMaxLoopOperands] = {};
};

// The loops over an output's elements, with neighbouring dims merged where every operand allows it.
struct BroadcastLoop {
  int num_operands = 0;  // operand 0 is the output
  int rank = 0;          // at least 2; dims[rank - 1] is the innermost
  int64_t dims[kMaxRank] = {};
  int64_t strides[kMaxLoopOperands][kMaxRank] = {};
};

// What kernels' checks ask of hostile operands. Each gives null, or what is wrong (a static text).
//
// Row-major with gaps at most: dims >= 0 and every stride at least the span of the axes behind it, so that
// elements do not overlap and there are no more of them than the tensor's bytes. `strided` = false asks for
// no gaps.
const char* layout_problem(const TensorRef& tensor, bool strided);
// `in` broadcasts to `out` (one way) as NumPy does.
const char* broadcast_problem(const TensorRef& in, const TensorRef& out);
// A dense tensor of `elements` seen as (outer, axis, inner): none negative, their product as many.
const char* split_problem(int64_t elements, int64_t outer, int64_t axis, int64_t inner);

// Operands that layout_problem and broadcast_problem (to operands[0]) have accepted.
BroadcastLoop make_broadcast_loop(const TensorRef* const operands[], int num_operands);

// Calls run(context, block) for blocks that cover the output, each tile of about 16K elements on one thread.
void run_broadcast_loop(const BroadcastLoop& loop, const Parallel* parallel,
                        void (*run)(void* context, const LoopBlock& block), void* context);

template <typename F>
void for_each_block(const BroadcastLoop& loop, const Parallel* parallel, F&& body) {
  run_broadcast_loop(
      loop, parallel, [](void* context, const LoopBlock& block) { (*static_cast<F*>(context))(block); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace kiln
