#include "ops/kernel.h"
#include "ops/matmul/batches.h"

namespace kiln::ops::matmul {

namespace {

// Sums of floats in double, of integers in 64 bits with wrap-around.
template <typename Sum, Sum (*kLoad)(DType, const void*, int64_t)>
Sum dot(const MatmulParams& p, const TensorRef& a, const TensorRef& b, MatrixPair pair, int32_t m, int32_t n) {
  const int64_t a_base = pair.a * p.m * p.k;
  const int64_t b_base = pair.b * p.k * p.n;
  Sum sum = 0;
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t ai = a_base + (p.trans_a ? k * p.m + m : int64_t{m} * p.k + k);
    const int64_t bi = b_base + (p.trans_b ? int64_t{n} * p.k + k : k * p.n + n);
    sum += kLoad(a.dtype, a.data, ai) * kLoad(b.dtype, b.data, bi);
  }
  return sum;
}

uint64_t load_u64(DType dtype, const void* data, int64_t index) {
  return static_cast<uint64_t>(element_as_i64(dtype, data, index));
}

}  // namespace

void matmul_reference(const KernelArgs& args) {
  const auto& p = args.params_as<MatmulParams>();
  const TensorRef& a = args.in[0];
  const TensorRef& b = args.in[1];
  const TensorRef& y = args.out[0];
  const bool has_c = args.num_in > 2 && args.in[2].present();
  const int64_t batches = num_batches(p);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const MatrixPair pair = pair_of_batch(p, batch);
    for (int32_t m = 0; m < p.m; ++m) {
      for (int32_t n = 0; n < p.n; ++n) {
        const int64_t to = (batch * p.m + m) * p.n + n;
        const int64_t from_c = int64_t{m} * p.c_row_stride + int64_t{n} * p.c_column_stride;
        if (is_float(y.dtype)) {
          double sum = dot<double, element_as_f64>(p, a, b, pair, m, n) * p.alpha;
          if (has_c) sum += p.beta * element_as_f64(args.in[2].dtype, args.in[2].data, from_c);
          store_f64(y.dtype, y.data, to, apply_activation(p.activation, sum));
        } else {
          uint64_t sum = dot<uint64_t, load_u64>(p, a, b, pair, m, n);
          if (p.alpha != 1) {
            sum = static_cast<uint64_t>(float_to_i64(static_cast<double>(static_cast<int64_t>(sum)) * p.alpha));
          }
          if (has_c) {
            const int64_t c = element_as_i64(args.in[2].dtype, args.in[2].data, from_c);
            sum += p.beta == 1 ? static_cast<uint64_t>(c)
                               : static_cast<uint64_t>(float_to_i64(static_cast<double>(c) * p.beta));
          }
          store_i64(y.dtype, y.data, to, static_cast<int64_t>(sum));
        }
      }
    }
  }
}

}  // namespace kiln::ops::matmul
