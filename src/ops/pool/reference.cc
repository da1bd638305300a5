#include <cmath>

#include "ops/kernel.h"
#include "ops/pool/pool.h"

namespace kiln::ops::pool {
namespace {

// A window's result in the making; sums in double.
struct Accumulator {
  PoolKind kind;
  int32_t p;
  double value;
  int64_t best_at = 0;  // position that the caller gave with the maximum

  Accumulator(PoolKind pool_kind, int32_t power, DType dtype) : kind(pool_kind), p(power), value(0) {
    if (kind == PoolKind::kMax) value = dtype == DType::kI8 ? -128 : (dtype == DType::kU8 ? 0 : -INFINITY);
  }
  void add(double x, int64_t at, bool is_first) {
    switch (kind) {
      case PoolKind::kMax:
        if (is_first) best_at = at;
        if (value < x) {
          value = x;
          best_at = at;
        }
        break;
      case PoolKind::kAverage:
        value += x;
        break;
      case PoolKind::kLp:
        value += std::pow(std::fabs(x), p);
        break;
    }
  }
  double result(int64_t count) const {
    if (kind == PoolKind::kAverage) return count > 0 ? value / static_cast<double>(count) : 0;
    return kind == PoolKind::kLp ? std::pow(value, 1.0 / p) : value;
  }
};

}  // namespace

// Any dtype, any layout, strided operands, Indices.
void pool_reference(const KernelArgs& args) {
  const auto& p = args.params_as<PoolParams>();
  const TensorRef& x_ref = args.in[0];
  const TensorRef& y_ref = args.out[0];
  const PoolTensor x(x_ref, p.spatial, p.is_nhwc != 0);
  const PoolTensor y(y_ref, p.spatial, p.is_nhwc != 0);
  const bool has_indices = args.num_out > 1 && args.out[1].present();
  if (y_ref.num_elements() == 0) return;
  const int64_t out_plane = y.dims[0] * y.dims[1] * y.dims[2];
  parallel_for(args.parallel, static_cast<int>(y.n * y.c), [&](int tile, int) {
    const int64_t n = tile / y.c;
    const int64_t c = tile % y.c;
    for (int64_t o = 0; o < out_plane; ++o) {
      const int64_t at[3] = {o / (y.dims[1] * y.dims[2]), o / y.dims[2] % y.dims[1], o % y.dims[2]};
      const PoolTaps taps[3] = {{p, 0, at[0], x.dims[0]}, {p, 1, at[1], x.dims[1]}, {p, 2, at[2], x.dims[2]}};
      Accumulator sum(static_cast<PoolKind>(p.kind), p.p, x_ref.dtype);
      int64_t count = 0;
      for (int64_t kd = taps[0].begin; kd < taps[0].end; ++kd) {
        for (int64_t kh = taps[1].begin; kh < taps[1].end; ++kh) {
          for (int64_t kw = taps[2].begin; kw < taps[2].end; ++kw) {
            const int64_t d = taps[0].start + kd * p.dilation[0];
            const int64_t h = taps[1].start + kh * p.dilation[1];
            const int64_t w = taps[2].start + kw * p.dilation[2];
            const int64_t offset =
                n * x.n_stride + c * x.c_stride + d * x.strides[0] + h * x.strides[1] + w * x.strides[2];
            const int64_t in_plane =
                p.column_major ? h + (w + d * x.dims[2]) * x.dims[1] : (d * x.dims[1] + h) * x.dims[2] + w;
            sum.add(element_as_f64(x_ref.dtype, x_ref.data, offset),
                    (n * x.c + c) * x.dims[0] * x.dims[1] * x.dims[2] + in_plane, count == 0);
            ++count;
          }
        }
      }
      if (p.count_include_pad) count = taps[0].padded * taps[1].padded * taps[2].padded;
      const int64_t out_offset =
          n * y.n_stride + c * y.c_stride + at[0] * y.strides[0] + at[1] * y.strides[1] + at[2] * y.strides[2];
      store_f64(y_ref.dtype, y_ref.data, out_offset, sum.result(count));
      if (has_indices) {
        const PoolTensor indices(args.out[1], p.spatial, p.is_nhwc != 0);
        args.out[1].as<int64_t>()[n * indices.n_stride + c * indices.c_stride + at[0] * indices.strides[0] +
                                  at[1] * indices.strides[1] + at[2] * indices.strides[2]] = sum.best_at;
      }
    }
  });
}

// Any dtype, dense operands.
void global_pool_reference(const KernelArgs& args) {
  const auto& p = args.params_as<GlobalPoolParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t batch = x.dims[0];
  const int64_t channels = p.is_nhwc ? x.dims[x.rank - 1] : x.dims[1];
  const int64_t outputs = batch * channels;
  if (outputs == 0) return;
  const int64_t plane = x.num_elements() / outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t begin = p.is_nhwc ? o / channels * plane * channels + o % channels : o * plane;
    Accumulator sum(static_cast<PoolKind>(p.kind), p.p, x.dtype);
    for (int64_t i = 0; i < plane; ++i) {
      sum.add(element_as_f64(x.dtype, x.data, begin + i * (p.is_nhwc ? channels : 1)), i, i == 0);
    }
    store_f64(y.dtype, y.data, o, sum.result(plane));
  }
}

}  // namespace kiln::ops::pool
