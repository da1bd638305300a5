#include <cstring>

#include "ops/gather/compare.h"
#include "ops/gather/gather.h"
#include "ops/index.h"
#include "ops/kernel_checks.h"

namespace kiln::ops::gather {

void gather_elements_reference(const KernelArgs& args);
void gather_nd_reference(const KernelArgs& args);
void scatter_elements_reference(const KernelArgs& args);
void scatter_nd_reference(const KernelArgs& args);
void one_hot_reference(const KernelArgs& args);
void trilu_reference(const KernelArgs& args);
void cumsum_reference(const KernelArgs& args);

namespace {

bool are_indices(const TensorRef& ref) { return ref.dtype == DType::kI32 || ref.dtype == DType::kI64; }

// Parameters of the right size, operands that are there, dense and not too large.
template <typename P>
Status check_common(const KernelArgs& args, int num_in, int num_out) {
  KILN_TRY(check_params<P>(args));
  KILN_TRY(check_operands(args, num_in, num_in, num_out));
  return check_layouts(args, true, true);
}

// --- Gather ---

void gather(const KernelArgs& args) {
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int64_t slice = dims_product(data, axis + 1, data.rank);
  const int64_t count = count_elements(indices);
  const int64_t dim = data.dims[axis];
  const int64_t slices = y.num_elements() / slice;
  const int64_t slice_bytes = slice * item_bytes(y);
  int64_t per_tile = 64 * 1024 / slice_bytes;
  if (per_tile < 1) per_tile = 1;
  parallel_for(args.parallel, static_cast<int>((slices + per_tile - 1) / per_tile), [&](int tile, int) {
    const int64_t end = (tile + 1) * per_tile < slices ? (tile + 1) * per_tile : slices;
    for (int64_t s = tile * per_tile; s < end; ++s) {
      const int64_t k = s % count;
      int64_t index = indices.dtype == DType::kI32 ? indices.as<int32_t>()[k] : indices.as<int64_t>()[k];
      if (index < 0) index += dim;
      index = index < 0 ? 0 : (index < dim ? index : dim - 1);
      std::memcpy(mutable_item_at(y, s * slice), item_at(data, (s / count * dim + index) * slice),
                  static_cast<size_t>(slice_bytes));
    }
  });
}

Status check_gather(const KernelArgs& args) {
  KILN_TRY(check_common<AxisParams>(args, 2, 1));
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  if (data.dtype != y.dtype || !are_indices(indices)) return corrupt("gather: dtypes");
  if (axis < 0 || axis >= data.rank || y.rank != data.rank + indices.rank - 1) return corrupt("gather: axis or rank");
  for (int i = 0; i < y.rank; ++i) {
    const int32_t dim =
        i < axis ? data.dims[i] : (i < axis + indices.rank ? indices.dims[i - axis] : data.dims[i + 1 - indices.rank]);
    if (y.dims[i] != dim) return corrupt("gather: dims do not match");
  }
  if (data.dims[axis] == 0 && count_elements(y) > 0) return corrupt("gather: nothing to gather");
  return {};
}

// --- GatherElements, ScatterElements ---

bool fits_beside_axis(const TensorRef& inner, const TensorRef& outer, int axis) {
  if (axis < 0 || axis >= outer.rank || inner.rank != outer.rank) return false;
  for (int i = 0; i < inner.rank; ++i) {
    if (i != axis && inner.dims[i] > outer.dims[i]) return false;
  }
  return true;
}

Status check_gather_elements(const KernelArgs& args) {
  KILN_TRY(check_common<AxisParams>(args, 2, 1));
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  if (data.dtype != args.out[0].dtype || !are_indices(indices) || !same_dims(indices, args.out[0]) ||
      !fits_beside_axis(indices, data, axis)) {
    return corrupt("gather_elements: operands do not match");
  }
  if (count_elements(data) == 0 && count_elements(indices) > 0) return corrupt("gather_elements: nothing to gather");
  return {};
}

Status check_scatter_elements(const KernelArgs& args) {
  KILN_TRY(check_common<AxisParams>(args, 3, 1));
  const auto& p = args.params_as<AxisParams>();
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& updates = args.in[2];
  if (p.reduction < 0 || p.reduction > static_cast<int32_t>(Reduction::kMin)) return corrupt("scatter: parameters");
  if (data.dtype != args.out[0].dtype || !same_dims(data, args.out[0]) || updates.dtype != data.dtype ||
      !same_dims(updates, indices) || !are_indices(indices) || !fits_beside_axis(indices, data, p.axis)) {
    return corrupt("scatter_elements: operands do not match");
  }
  return {};
}

// --- GatherND, ScatterND ---

Status check_gather_nd(const KernelArgs& args) {
  KILN_TRY(check_common<NdParams>(args, 2, 1));
  const int32_t batch = args.params_as<NdParams>().batch_dims;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  if (data.dtype != y.dtype || !are_indices(indices) || indices.rank < 1) return corrupt("gather_nd: dtypes");
  const int32_t depth = indices.dims[indices.rank - 1];
  if (batch < 0 || batch >= indices.rank || depth < 1 || depth > data.rank || batch + depth > data.rank ||
      y.rank != indices.rank - 1 + data.rank - batch - depth) {
    return corrupt("gather_nd: rank or batch_dims");
  }
  for (int i = 0; i < batch; ++i) {
    if (data.dims[i] != indices.dims[i]) return corrupt("gather_nd: batch dims do not match");
  }
  for (int i = 0; i < y.rank; ++i) {
    const int32_t dim = i < indices.rank - 1 ? indices.dims[i] : data.dims[i - (indices.rank - 1) + batch + depth];
    if (y.dims[i] != dim) return corrupt("gather_nd: dims do not match");
  }
  if (count_elements(data) == 0 && count_elements(y) > 0) return corrupt("gather_nd: nothing to gather");
  return {};
}

Status check_scatter_nd(const KernelArgs& args) {
  KILN_TRY(check_common<NdParams>(args, 3, 1));
  const int32_t reduction = args.params_as<NdParams>().reduction;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& updates = args.in[2];
  if (reduction < 0 || reduction > static_cast<int32_t>(Reduction::kMin)) return corrupt("scatter: parameters");
  if (data.dtype != args.out[0].dtype || !same_dims(data, args.out[0]) || updates.dtype != data.dtype ||
      !are_indices(indices) || indices.rank < 1) {
    return corrupt("scatter_nd: operands do not match");
  }
  const int32_t depth = indices.dims[indices.rank - 1];
  if (depth < 1 || depth > data.rank || updates.rank != indices.rank - 1 + data.rank - depth) {
    return corrupt("scatter_nd: ranks do not match");
  }
  for (int i = 0; i < updates.rank; ++i) {
    const int32_t dim = i < indices.rank - 1 ? indices.dims[i] : data.dims[i - (indices.rank - 1) + depth];
    if (updates.dims[i] != dim) return corrupt("scatter_nd: dims do not match");
  }
  return {};
}

// --- OneHot, Trilu, CumSum ---

Status check_one_hot(const KernelArgs& args) {
  KILN_TRY(check_common<AxisParams>(args, 3, 1));
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& indices = args.in[0];
  const TensorRef& y = args.out[0];
  if (args.in[2].dtype != y.dtype || count_elements(args.in[2]) != 2) return corrupt("one_hot: values");
  if (y.rank != indices.rank + 1 || axis < 0 || axis >= y.rank) return corrupt("one_hot: axis or rank");
  for (int i = 0; i < indices.rank; ++i) {
    if (y.dims[i < axis ? i : i + 1] != indices.dims[i]) return corrupt("one_hot: dims do not match");
  }
  return {};
}

Status check_same_type(const KernelArgs& args) {
  if (args.in[0].dtype != args.out[0].dtype || !same_dims(args.in[0], args.out[0])) {
    return corrupt("input and output differ in dtype or dims");
  }
  return {};
}

Status check_trilu(const KernelArgs& args) {
  KILN_TRY(check_common<TriluParams>(args, 1, 1));
  if (args.in[0].rank < 2) return corrupt("trilu: rank");
  return check_same_type(args);
}

Status check_cumsum(const KernelArgs& args) {
  KILN_TRY(check_common<CumSumParams>(args, 1, 1));
  const int32_t axis = args.params_as<CumSumParams>().axis;
  if (axis < 0 || axis >= args.in[0].rank) return corrupt("cumsum: axis");
  return check_same_type(args);
}

// --- TopK ---

// One line of the output as a binary heap whose root is the worst of the elements kept (Williams 1964).
struct Heap {
  DType dtype;
  bool smallest;
  int64_t stride;  // between the line's elements in the output
  size_t item;
  char* values;
  int64_t* positions;

  // Element i of the heap comes behind element j in the order of the result.
  bool is_worse(int64_t i, int64_t j) const {
    if (comes_before(dtype, smallest, values, j * stride, values, i * stride)) return true;
    if (comes_before(dtype, smallest, values, i * stride, values, j * stride)) return false;
    return positions[i * stride] > positions[j * stride];
  }
  void swap(int64_t i, int64_t j) {
    char kept[8];
    char* a = values + i * stride * static_cast<int64_t>(item);
    char* b = values + j * stride * static_cast<int64_t>(item);
    std::memcpy(kept, a, item);
    std::memcpy(a, b, item);
    std::memcpy(b, kept, item);
    const int64_t position = positions[i * stride];
    positions[i * stride] = positions[j * stride];
    positions[j * stride] = position;
  }
  void sift_down(int64_t i, int64_t count) {
    for (;;) {
      int64_t child = 2 * i + 1;
      if (child >= count) return;
      if (child + 1 < count && is_worse(child + 1, child)) ++child;
      if (!is_worse(child, i)) return;
      swap(i, child);
      i = child;
    }
  }
};

void topk(const KernelArgs& args) {
  const auto& p = args.params_as<TopKParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int64_t dim = x.dims[p.axis];
  const int64_t k = y.dims[p.axis];
  const int64_t inner = dims_product(x, p.axis + 1, x.rank);
  const int64_t lines = x.num_elements() / dim;
  parallel_for(args.parallel, static_cast<int>(lines), [&](int line, int) {
    const int64_t begin = line / inner * dim * inner + line % inner;
    const int64_t out_begin = line / inner * k * inner + line % inner;
    Heap heap = {x.dtype,
                 p.smallest != 0,
                 inner,
                 dtype_bytes(x.dtype),
                 mutable_item_at(y, out_begin),
                 args.out[1].as<int64_t>() + out_begin};
    const auto put = [&](int64_t at, int64_t i) {
      copy_item(y, out_begin + at * inner, x, begin + i * inner);
      heap.positions[at * inner] = i;
    };
    for (int64_t i = 0; i < k; ++i) put(i, i);
    for (int64_t i = k / 2; i-- > 0;) heap.sift_down(i, k);
    for (int64_t i = k; i < dim; ++i) {
      // Of equals the earlier stays: only what comes strictly before the worst gets in.
      if (!comes_before(x.dtype, p.smallest != 0, x.data, begin + i * inner, heap.values, 0)) continue;
      put(0, i);
      heap.sift_down(0, k);
    }
    for (int64_t count = k - 1; count > 0; --count) {
      heap.swap(0, count);
      heap.sift_down(0, count);
    }
  });
}

Status check_topk(const KernelArgs& args) {
  KILN_TRY(check_common<TopKParams>(args, 1, 2));
  const int32_t axis = args.params_as<TopKParams>().axis;
  const TensorRef& x = args.in[0];
  TensorRef y = args.out[0];
  if (y.dtype != x.dtype || args.out[1].dtype != DType::kI64 || !same_dims(y, args.out[1])) {
    return corrupt("topk: outputs");
  }
  if (axis < 0 || axis >= x.rank || y.rank != x.rank || y.dims[axis] > x.dims[axis]) return corrupt("topk: axis or k");
  y.dims[axis] = x.dims[axis];
  if (!same_dims(x, y)) return corrupt("topk: dims do not match");
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"gather", gather, check_gather},
      {"gather_elements", gather_elements_reference, check_gather_elements},
      {"gather_nd", gather_nd_reference, check_gather_nd},
      {"scatter_elements", scatter_elements_reference, check_scatter_elements},
      {"scatter_nd", scatter_nd_reference, check_scatter_nd},
      {"one_hot", one_hot_reference, check_one_hot},
      {"topk", topk, check_topk},
      {"trilu", trilu_reference, check_trilu},
      {"cumsum", cumsum_reference, check_cumsum},
  };
  return kKernels;
}

}  // namespace kiln::ops::gather
