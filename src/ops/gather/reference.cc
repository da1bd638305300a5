// Plain loops; the scattering ones and those with small loads are the runtime kernels too.
#include <cstring>

#include "ops/gather/gather.h"
#include "ops/index.h"
#include "ops/kernel.h"

namespace kiln::ops::gather {
namespace {

// Element `at` of the indices, negative ones counted from the end of `dim`.
int64_t read_index(const TensorRef& indices, int64_t at, int64_t dim) {
  const int64_t index = element_as_i64(indices.dtype, indices.data, at);
  return index < 0 ? index + dim : index;
}

int64_t clamp_index(int64_t index, int64_t dim) { return index < 0 ? 0 : (index < dim ? index : dim - 1); }

template <typename T>
T reduce(Reduction reduction, T old, T update) {
  switch (reduction) {
    case Reduction::kAdd:
      return old + update;
    case Reduction::kMul:
      return old * update;
    case Reduction::kMax:
      return old < update ? update : old;
    case Reduction::kMin:
      return update < old ? update : old;
    case Reduction::kNone:
      break;
  }
  return update;
}

// out[o] = reduce(out[o], in[i])
void update_item(Reduction reduction, const TensorRef& out, int64_t o, const TensorRef& in, int64_t i) {
  if (reduction == Reduction::kNone) {
    copy_item(out, o, in, i);
  } else if (is_float(out.dtype)) {
    store_f64(out.dtype, out.data, o,
              reduce(reduction, element_as_f64(out.dtype, out.data, o), element_as_f64(in.dtype, in.data, i)));
  } else if (reduction == Reduction::kMax || reduction == Reduction::kMin) {
    store_i64(out.dtype, out.data, o,
              reduce(reduction, element_as_i64(out.dtype, out.data, o), element_as_i64(in.dtype, in.data, i)));
  } else {  // unsigned, so that overflow wraps
    const auto old = static_cast<uint64_t>(element_as_i64(out.dtype, out.data, o));
    const auto update = static_cast<uint64_t>(element_as_i64(in.dtype, in.data, i));
    store_i64(out.dtype, out.data, o, static_cast<int64_t>(reduce(reduction, old, update)));
  }
}

void copy_all(const TensorRef& from, const TensorRef& to) {
  const size_t bytes = static_cast<size_t>(from.num_elements()) * dtype_bytes(from.dtype);
  if (bytes > 0) std::memcpy(to.data, from.data, bytes);
}

}  // namespace

// out[o, k, i] = data[o, indices[k], i]
void gather_reference(const KernelArgs& args) {
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int64_t inner = dims_product(data, axis + 1, data.rank);
  const int64_t count = indices.num_elements();
  const int64_t dim = data.dims[axis];
  for (int64_t o = 0; o < y.num_elements(); ++o) {
    const int64_t i = o % inner;
    const int64_t k = o / inner % count;
    const int64_t outer = o / inner / count;
    copy_item(y, o, data, (outer * dim + clamp_index(read_index(indices, k, dim), dim)) * inner + i);
  }
}

// out[i…] = data[i… with indices[i…] on the axis]
void gather_elements_reference(const KernelArgs& args) {
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& data = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  for (int64_t o = 0; o < n; ++o) {
    int64_t index[kMaxRank];
    unravel(y, o, index);
    index[axis] = clamp_index(read_index(args.in[1], o, data.dims[axis]), data.dims[axis]);
    copy_item(y, o, data, offset_of(data, index));
  }
}

// out[b…, k…, i…] = data[b…, indices[b…, k…], i…]
void gather_nd_reference(const KernelArgs& args) {
  const int batch_dims = args.params_as<NdParams>().batch_dims;
  const TensorRef& data = args.in[0];
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int depth = indices.dims[indices.rank - 1];
  const int64_t tuples = dims_product(indices, 0, indices.rank - 1);
  const int64_t tuples_in_batch = dims_product(indices, batch_dims, indices.rank - 1);
  const int64_t slice = dims_product(data, batch_dims + depth, data.rank);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t offset = t / tuples_in_batch;
    for (int d = 0; d < depth; ++d) {
      const int64_t dim = data.dims[batch_dims + d];
      offset = offset * dim + clamp_index(read_index(indices, t * depth + d, dim), dim);
    }
    std::memcpy(mutable_item_at(y, t * slice), item_at(data, offset * slice),
                static_cast<size_t>(slice) * dtype_bytes(y.dtype));
  }
}

// out = data; out[i… with indices[i…] on the axis] = updates[i…]
void scatter_elements_reference(const KernelArgs& args) {
  const auto& p = args.params_as<AxisParams>();
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  copy_all(args.in[0], y);
  const int64_t n = indices.num_elements();
  const int64_t dim = y.dims[p.axis];
  for (int64_t i = 0; i < n; ++i) {
    int64_t index[kMaxRank];
    unravel(indices, i, index);
    index[p.axis] = read_index(indices, i, dim);
    if (index[p.axis] < 0 || index[p.axis] >= dim) continue;
    update_item(static_cast<Reduction>(p.reduction), y, offset_of(y, index), args.in[2], i);
  }
}

// out = data; out[indices[k…], i…] = updates[k…, i…]
void scatter_nd_reference(const KernelArgs& args) {
  const auto& p = args.params_as<NdParams>();
  const TensorRef& indices = args.in[1];
  const TensorRef& y = args.out[0];
  copy_all(args.in[0], y);
  if (y.num_elements() == 0 || indices.num_elements() == 0) return;
  const int depth = indices.dims[indices.rank - 1];
  const int64_t tuples = indices.num_elements() / depth;
  const int64_t slice = dims_product(y, depth, y.rank);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d < depth; ++d) {
      const int64_t dim = y.dims[d];
      const int64_t index = read_index(indices, t * depth + d, dim);
      inside = inside && index >= 0 && index < dim;
      offset = offset * dim + (inside ? index : 0);
    }
    for (int64_t i = 0; inside && i < slice; ++i) {
      update_item(static_cast<Reduction>(p.reduction), y, offset * slice + i, args.in[2], t * slice + i);
    }
  }
}

// Operands: indices, depth, values (off, on).
void one_hot_reference(const KernelArgs& args) {
  const int axis = args.params_as<AxisParams>().axis;
  const TensorRef& indices = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  if (n == 0) return;
  const int64_t depth = y.dims[axis];
  const int64_t inner = dims_product(y, axis + 1, y.rank);
  for (int64_t o = 0; o < n; ++o) {
    const int64_t at = o / inner % depth;
    const int64_t index = read_index(indices, o / inner / depth * inner + o % inner, depth);
    copy_item(y, o, args.in[2], index == at);
  }
}

// Column j of the output is the index tuple of the j-th element that is not 0.
void nonzero_reference(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t count = y.dims[1];
  const int64_t n = x.num_elements();
  int64_t found = 0;
  for (int64_t i = 0; i < n && found < count; ++i) {
    if (element_as_f64(x.dtype, x.data, i) == 0) continue;
    int64_t index[kMaxRank];
    unravel(x, i, index);
    for (int k = 0; k < x.rank; ++k) y.as<int64_t>()[k * count + found] = index[k];
    ++found;
  }
}

void trilu_reference(const KernelArgs& args) {
  const auto& p = args.params_as<TriluParams>();
  const TensorRef& y = args.out[0];
  copy_all(args.in[0], y);
  const int64_t n = y.num_elements();
  for (int64_t o = 0; o < n; ++o) {
    const int64_t column = o % y.dims[y.rank - 1];
    const int64_t row = o / y.dims[y.rank - 1] % y.dims[y.rank - 2];
    if (p.upper ? column - row < p.k : column - row > p.k) {
      std::memset(mutable_item_at(y, o), 0, dtype_bytes(y.dtype));
    }
  }
}

// Sums in double or in wrapping 64-bit integers.
void cumsum_reference(const KernelArgs& args) {
  const auto& p = args.params_as<CumSumParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int64_t dim = x.dims[p.axis];
  const int64_t inner = dims_product(x, p.axis + 1, x.rank);
  const int64_t lines = x.num_elements() / dim;
  const bool floats = is_float(x.dtype);
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t begin = line / inner * dim * inner + line % inner;
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t k = 0; k < dim; ++k) {
      const int64_t at = begin + (p.reverse ? dim - 1 - k : k) * inner;
      const double before = sum;
      const uint64_t whole_before = whole;
      if (floats)
        sum += element_as_f64(x.dtype, x.data, at);
      else
        whole += static_cast<uint64_t>(element_as_i64(x.dtype, x.data, at));
      if (floats)
        store_f64(y.dtype, y.data, at, p.exclusive ? before : sum);
      else
        store_i64(y.dtype, y.data, at, static_cast<int64_t>(p.exclusive ? whole_before : whole));
    }
  }
}

}  // namespace kiln::ops::gather
