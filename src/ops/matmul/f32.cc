#include <algorithm>
#include <cstring>

#include "cpu/gemm.h"
#include "ops/kernel_checks.h"
#include "ops/matmul/batches.h"

namespace kiln::ops::matmul {

void matmul_reference(const KernelArgs& args);

namespace {

uint64_t align64(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

bool has_c(const KernelArgs& args) { return args.num_in > 2 && args.in[2].present(); }

// Rows [0, m) of y set to beta * c, so that the product adds to them.
void fill_with_c(const KernelArgs& args, const MatmulParams& p, float* y) {
  constexpr int32_t kRows = 64;
  const float* c = args.in[2].as<float>();
  parallel_for(args.parallel, (p.m + kRows - 1) / kRows, [&](int tile, int) {
    for (int32_t row = tile * kRows; row < std::min(p.m, (tile + 1) * kRows); ++row) {
      const float* from = c + static_cast<int64_t>(row) * p.c_row_stride;
      float* to = y + static_cast<int64_t>(row) * p.n;
      for (int32_t n = 0; n < p.n; ++n) to[n] = p.beta * from[static_cast<int64_t>(n) * p.c_column_stride];
    }
  });
}

// The product of matrix `a_index` of a with packed b, into matrix `batch` of y.
void run_product(const KernelArgs& args, const MatmulParams& p, int64_t a_index, int64_t batch, const float* packed,
                 void* scratch) {
  MatrixRows rows;
  rows.data = args.in[0].as<float>() + a_index * p.m * p.k;
  rows.row_stride = p.trans_a ? 1 : p.k;
  rows.k_stride = p.trans_a ? p.m : 1;
  Gemm gemm;
  gemm.m = p.m;
  gemm.n = p.n;
  gemm.k = p.k;
  gemm.row_form = matrix_form(p.trans_a != 0);
  gemm.locate_rows = locate_matrix_rows;
  gemm.rows_context = &rows;
  gemm.b = packed;
  gemm.c = args.out[0].as<float>() + batch * p.m * p.n;
  gemm.c_rows = make_plain_rows(p.m, p.n);
  gemm.activation = p.activation;
  if (has_c(args)) {
    fill_with_c(args, p, gemm.c);
    gemm.accumulate = true;
  }
  run_gemm(gemm, args.parallel, scratch);
}

void run_packed(const KernelArgs& args) {
  const auto& p = args.params_as<MatmulParams>();
  run_product(args, p, 0, 0, args.in[1].as<float>(), args.scratch);
}

void run_dynamic(const KernelArgs& args) {
  const auto& p = args.params_as<MatmulParams>();
  auto* packed = static_cast<float*>(args.scratch);
  const uint64_t packed_bytes = align64(static_cast<uint64_t>(packed_b_floats(p.n, p.k)) * sizeof(float));
  void* scratch = static_cast<char*>(args.scratch) + packed_bytes;
  const int64_t batches = num_batches(p);
  int64_t held = -1;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const MatrixPair pair = pair_of_batch(p, batch);
    if (pair.b != held) {
      SourceB b;
      b.data = args.in[1].as<float>() + pair.b * p.k * p.n;
      b.n = p.n;
      b.k_inner = p.k;
      b.n_stride = p.trans_b ? p.k : 1;
      b.inner_stride = p.trans_b ? 1 : p.n;
      b.scale = p.alpha;
      pack_b(b, args.parallel, packed);
      held = pair.b;
    }
    run_product(args, p, pair.a, batch, packed, scratch);
  }
}

Status check_f32(const KernelArgs& args, bool packed_b) {
  KILN_TRY(check_product(args, packed_b));
  for (int i = 0; i < args.num_in; ++i) {
    if (args.in[i].present() && args.in[i].dtype != DType::kF32) return corrupt("an input is not f32");
  }
  if (args.out[0].dtype != DType::kF32) return corrupt("the output is not f32");
  const auto& p = args.params_as<MatmulParams>();
  const int64_t floats = packed_b_floats(p.n, p.k);
  if (floats > INT32_MAX) return corrupt("b is too large");
  uint64_t scratch = gemm_scratch_bytes(1, p.m, p.n, p.k, matrix_form(p.trans_a != 0));
  if (packed_b) {
    if (args.in[1].rank != 1 || args.in[1].dims[0] != floats) return corrupt("packed weights do not fit the product");
  } else {
    scratch += align64(static_cast<uint64_t>(floats) * sizeof(float));
  }
  return args.scratch_bytes < scratch ? corrupt("too little scratch") : Status();
}

Status check_packed(const KernelArgs& args) { return check_f32(args, true); }
Status check_dynamic(const KernelArgs& args) { return check_f32(args, false); }

Status check_plain(const KernelArgs& args) {
  KILN_TRY(check_product(args, false));
  const DType dtype = args.out[0].dtype;
  for (int i = 0; i < args.num_in; ++i) {
    if (args.in[i].present() && args.in[i].dtype != dtype) return corrupt("operands of several dtypes");
  }
  return {};
}

}  // namespace

Status check_product(const KernelArgs& args, bool packed_b) {
  KILN_TRY(check_params<MatmulParams>(args));
  KILN_TRY(check_operands(args, 2, 4, 1));
  KILN_TRY(check_layouts(args, true, true));
  const auto& p = args.params_as<MatmulParams>();
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch_rank < 0 || p.batch_rank > kMaxBatchRank) {
    return corrupt("sizes of the product out of range");
  }
  if (!is_activation(p.activation)) return corrupt("unknown activation");
  int64_t batches = 1;
  int64_t last_a = 0;
  int64_t last_b = 0;
  for (int i = 0; i < p.batch_rank; ++i) {
    const int64_t dim = p.batch_dims[i];
    if (dim < 0 || p.a_steps[i] < 0 || p.b_steps[i] < 0) return corrupt("batch dims out of range");
    batches *= dim;
    last_a += std::max<int64_t>(dim - 1, 0) * p.a_steps[i];
    last_b += std::max<int64_t>(dim - 1, 0) * p.b_steps[i];
    if (batches > INT32_MAX || last_a > INT32_MAX || last_b > INT32_MAX) return corrupt("too many batches");
  }
  const auto fits = [](int64_t matrices, int64_t rows, int64_t columns, int64_t elements) {
    return rows * columns <= INT32_MAX && matrices * (rows * columns) <= elements;
  };
  if (!fits(batches == 0 ? 0 : last_a + 1, p.m, p.k, count_elements(args.in[0])))
    return corrupt("a does not fit the product");
  if (!packed_b && !fits(batches == 0 ? 0 : last_b + 1, p.k, p.n, count_elements(args.in[1]))) {
    return corrupt("b does not fit the product");
  }
  if (packed_b && p.batch_rank != 0) return corrupt("packed weights have no batches");
  const TensorRef& y = args.out[0];
  const int64_t y_elements = count_elements(y);
  if (int64_t{p.m} * p.n > INT32_MAX || batches * p.m * p.n != y_elements) {
    return corrupt("the output does not fit the product");
  }
  if (has_c(args)) {
    if (p.c_row_stride < 0 || p.c_column_stride < 0) return corrupt("strides of c out of range");
    const int64_t last =
        p.m > 0 && p.n > 0 ? int64_t{p.m - 1} * p.c_row_stride + int64_t{p.n - 1} * p.c_column_stride : -1;
    if (last >= count_elements(args.in[2])) return corrupt("c does not fit the product");
  }
  return {};
}

std::span<const KernelDef> kernels() {
  static const KernelDef kTable[] = {
      {"matmul_f32_gemm8", run_packed, check_packed},
      {"matmul_f32_gemm8_dynamic", run_dynamic, check_dynamic},
      {"matmul_any_plain", matmul_reference, check_plain},
  };
  return kTable;
}

}  // namespace kiln::ops::matmul
