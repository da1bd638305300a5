#include "cpu/broadcast.h"

namespace kiln {
namespace {

constexpr int64_t kTileElements = 16 * 1024;

// Rows [begin, end) of the loop, columns [column, column + n): one block for each run along dims[rank - 2].
void run_rows(const BroadcastLoop& loop, int64_t begin, int64_t end, int64_t column, int64_t n,
              void (*run)(void*, const LoopBlock&), void* context) {
  const int row_axis = loop.rank - 2;
  const int64_t row_dim = loop.dims[row_axis];
  LoopBlock block;
  block.n = n;
  for (int k = 0; k < loop.num_operands; ++k) {
    block.row_stride[k] = loop.strides[k][row_axis];
    block.stride[k] = loop.strides[k][row_axis + 1];
  }
  while (begin < end) {
    const int64_t row = begin % row_dim;
    block.rows = row_dim - row < end - begin ? row_dim - row : end - begin;
    for (int k = 0; k < loop.num_operands; ++k) {
      block.offset[k] = row * block.row_stride[k] + column * block.stride[k];
    }
    int64_t rest = begin / row_dim;
    for (int axis = row_axis - 1; axis >= 0; --axis) {
      const int64_t index = rest % loop.dims[axis];
      rest /= loop.dims[axis];
      for (int k = 0; k < loop.num_operands; ++k) block.offset[k] += index * loop.strides[k][axis];
    }
    run(context, block);
    begin += block.rows;
  }
}

}  // namespace

const char* layout_problem(const TensorRef& tensor, bool strided) {
  if (tensor.dtype == DType::kInvalid || static_cast<int>(tensor.dtype) >= kNumDTypes || tensor.rank > kMaxRank) {
    return "operand has no valid dtype or rank";
  }
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  int64_t span = 1;  // elements from the first to behind the last of the axes so far
  int64_t elements = 1;
  bool empty = false;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    const int64_t dim = tensor.dims[i];
    if (dim < 0) return "operand has a negative dimension";
    empty = empty || dim == 0;
    if (dim > 0 && elements > kMaxElements / dim) return "operand has too many elements";
    elements *= dim > 0 ? dim : 1;
    if (dim == 1 || empty) continue;
    if (tensor.strides[i] < span || (!strided && tensor.strides[i] != span)) {
      return "an operand has strides that this kernel does not take";
    }
    span += (dim - 1) * tensor.strides[i];
  }
  return nullptr;
}

const char* broadcast_problem(const TensorRef& in, const TensorRef& out) {
  bool ok = in.rank <= out.rank;
  for (int i = 0; ok && i < in.rank; ++i) {
    ok = in.dims[i] == 1 || in.dims[i] == out.dims[out.rank - in.rank + i];
  }
  if (!ok) return "input does not broadcast to the output";
  return nullptr;
}

const char* split_problem(int64_t elements, int64_t outer, int64_t axis, int64_t inner) {
  constexpr int64_t kMaxDim = INT32_MAX;
  bool ok = outer >= 0 && axis >= 0 && inner >= 0 && outer <= kMaxDim && axis <= kMaxDim && inner <= kMaxDim;
  if (ok) {
    const int64_t rows = outer * axis;
    ok = rows == 0 || inner == 0 ? elements == 0 : elements % rows == 0 && elements / rows == inner;
  }
  if (!ok) return "sizes do not match the operands";
  return nullptr;
}

BroadcastLoop make_broadcast_loop(const TensorRef* const operands[], int num_operands) {
  BroadcastLoop loop;
  loop.num_operands = num_operands;
  const TensorRef& out = *operands[0];
  for (int axis = 0; axis < out.rank; ++axis) {
    if (out.dims[axis] != 0) continue;
    loop.rank = 2;  // nothing to do: both dims stay 0
    return loop;
  }
  // From the innermost axis outwards; dims and strides hold the merged loops, innermost first.
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank][kMaxLoopOperands];
  int count = 0;
  for (int axis = out.rank - 1; axis >= 0; --axis) {
    if (out.dims[axis] == 1) continue;
    int64_t stride[kMaxLoopOperands];
    bool merges = count > 0;
    for (int k = 0; k < num_operands; ++k) {
      const TensorRef& operand = *operands[k];
      const int own = axis - (out.rank - operand.rank);
      stride[k] = own < 0 || operand.dims[own] == 1 ? 0 : operand.strides[own];
      merges = merges && stride[k] == strides[count - 1][k] * dims[count - 1];
    }
    if (merges) {
      dims[count - 1] *= out.dims[axis];
      continue;
    }
    dims[count] = out.dims[axis];
    for (int k = 0; k < num_operands; ++k) strides[count][k] = stride[k];
    ++count;
  }
  loop.rank = count < 2 ? 2 : count;
  for (int axis = 0; axis < loop.rank; ++axis) {
    const int from = loop.rank - 1 - axis;
    loop.dims[axis] = from < count ? dims[from] : 1;
    for (int k = 0; k < num_operands; ++k) loop.strides[k][axis] = from < count ? strides[from][k] : 0;
  }
  return loop;
}

void run_broadcast_loop(const BroadcastLoop& loop, const Parallel* parallel,
                        void (*run)(void* context, const LoopBlock& block), void* context) {
  const int64_t n = loop.dims[loop.rank - 1];
  int64_t rows = 1;
  for (int axis = 0; axis < loop.rank - 1; ++axis) rows *= loop.dims[axis];
  if (n == 0 || rows == 0) return;
  const int64_t rows_per_tile = n >= kTileElements ? 1 : kTileElements / n;
  const int64_t columns_per_tile = n >= 2 * kTileElements ? kTileElements : n;
  const int64_t chunks = (n + columns_per_tile - 1) / columns_per_tile;
  const int64_t num_tiles = (rows + rows_per_tile - 1) / rows_per_tile * chunks;
  parallel_for(parallel, static_cast<int>(num_tiles), [&](int tile, int) {
    const int64_t row = tile / chunks * rows_per_tile;
    const int64_t column = tile % chunks * columns_per_tile;
    run_rows(loop, row, row + rows_per_tile < rows ? row + rows_per_tile : rows, column,
             column + columns_per_tile < n ? columns_per_tile : n - column, run, context);
  });
}

}  // namespace kiln
