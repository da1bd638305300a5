#include <algorithm>

#include "cpu/gemm.h"
#include "ops/activation.h"
#include "ops/definition.h"
#include "ops/matmul/matmul.h"

namespace kiln::ops::matmul {

void matmul_reference(const KernelArgs& args);

namespace {

// A product's shapes, before they are squeezed into MatmulParams.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  Shape a_batch, b_batch, batch;
  Shape output;
};

bool is_gemm(const NodeView& node) { return node.node().op == "Gemm"; }

bool read_gemm(const NodeView& node, Inference* out, Product* product) {
  const Shape& a = node.input_shape(0);
  const Shape& b = node.input_shape(1);
  if (a.rank != 2 || b.rank != 2) {
    if (out) out->invalid("rank of A, B", strf("%d, %d", a.rank, b.rank), "2, 2");
    return false;
  }
  const bool trans_a = node.attr_int("transA", 0) != 0;
  const bool trans_b = node.attr_int("transB", 0) != 0;
  product->m = a[trans_a ? 1 : 0];
  product->k = a[trans_a ? 0 : 1];
  product->n = b[trans_b ? 0 : 1];
  if (b[trans_b ? 1 : 0] != product->k) {
    if (out) out->invalid("shape of B", print_shape(b), strf("K=%lld as A has", static_cast<long long>(product->k)));
    return false;
  }
  product->output = Shape{product->m, product->n};
  return true;
}

bool read_matmul(const NodeView& node, Inference* out, Product* product) {
  const Shape& a = node.input_shape(0);
  const Shape& b = node.input_shape(1);
  if (a.rank < 1 || b.rank < 1) {
    if (out) out->invalid("rank of A, B", strf("%d, %d", a.rank, b.rank), "at least 1");
    return false;
  }
  product->m = a.rank > 1 ? a[a.rank - 2] : 1;
  product->k = a[a.rank - 1];
  product->n = b.rank > 1 ? b[b.rank - 1] : 1;
  const int64_t b_k = b[b.rank > 1 ? b.rank - 2 : 0];
  for (int i = 0; i + 2 < a.rank; ++i) product->a_batch.push_back(a[i]);
  for (int i = 0; i + 2 < b.rank; ++i) product->b_batch.push_back(b[i]);
  if (b_k != product->k || !broadcast_shapes(product->a_batch, product->b_batch, &product->batch)) {
    if (out) out->invalid("shape of B", print_shape(b), "one that multiplies with A, " + print_shape(a));
    return false;
  }
  product->output = product->batch;
  if (a.rank > 1) product->output.push_back(product->m);
  if (b.rank > 1) product->output.push_back(product->n);
  return true;
}

bool read_product(const NodeView& node, Inference* out, Product* product) {
  return is_gemm(node) ? read_gemm(node, out, product) : read_matmul(node, out, product);
}

// c broadcasts to (m, n) in one direction; a MatMul's bias has n values.
bool check_c(const NodeView& node, const Product& product, Inference& out) {
  if (!node.has_input(2)) return true;
  const Shape& c = node.input_shape(2);
  const int64_t rows = c.rank == 2 ? c[0] : 1;
  const int64_t columns = c.rank > 0 ? c[c.rank - 1] : 1;
  const bool fits = c.rank <= 2 && (rows == 1 || rows == product.m) && (columns == 1 || columns == product.n);
  const bool is_bias = c.rank == 1 && c[0] == product.n;
  if (is_gemm(node) ? fits : is_bias) return true;
  out.invalid("shape of C", print_shape(c),
              is_gemm(node) ? "one that broadcasts to " + print_shape(product.output)
                            : strf("[%lld]", static_cast<long long>(product.n)));
  return false;
}

void infer(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 3)) return;
  const std::initializer_list<DType> kDTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64,
                                                DType::kI32, DType::kU32, DType::kI64,  DType::kU64};
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!out.check_dtype(i, kDTypes)) return;
    if (node.has_input(i) && node.input_dtype(i) != node.input_dtype(0)) {
      out.invalid(strf("dtype of input %d", i).c_str(), dtype_name(node.input_dtype(i)),
                  dtype_name(node.input_dtype(0)));
      return;
    }
  }
  Product product;
  if (!read_product(node, &out, &product) || !check_c(node, product, out)) return;
  const std::string activation = node.attr_string("activation", "");
  if (!activation.empty() && read_activation(node.node()).kind == 0) {
    out.unsupported("activation", activation, "Clip, LeakyRelu, Sigmoid, Silu, HardSigmoid, HardSwish, Tanh");
    return;
  }
  const int64_t sizes[] = {product.output.num_elements(), node.input_shape(0).num_elements(),
                           node.input_shape(1).num_elements()};
  for (int64_t size : sizes) {
    if (size < 0 || size > INT32_MAX) {
      out.unsupported("output shape", print_shape(product.output), "fewer than 2^31 elements an operand");
      return;
    }
  }
  out.set_output(0, node.input_dtype(0), product.output);
}

// Matrices from one index of each batch axis to the next, 0 where the operand broadcasts.
void batch_steps(const Shape& operand, const Shape& batch, int32_t* steps) {
  int64_t step = 1;
  for (int i = batch.rank - 1; i >= 0; --i) {
    const int axis = i - (batch.rank - operand.rank);
    const int64_t dim = axis < 0 ? 1 : operand[axis];
    steps[i] = dim == 1 ? 0 : static_cast<int32_t>(step);
    step *= dim;
  }
}

MatmulParams params_of(const NodeView& node) {
  Product product;
  read_product(node, nullptr, &product);
  MatmulParams params;
  params.m = static_cast<int32_t>(product.m);
  params.n = static_cast<int32_t>(product.n);
  params.k = static_cast<int32_t>(product.k);
  if (is_gemm(node)) {
    params.trans_a = node.attr_int("transA", 0) != 0;
    params.trans_b = node.attr_int("transB", 0) != 0;
    params.alpha = node.attr_float("alpha", 1.0f);
    params.beta = node.attr_float("beta", 1.0f);
  }
  if (node.has_input(2)) {
    const Shape& c = node.input_shape(2);
    params.c_row_stride = c.rank == 2 && c[0] > 1 ? static_cast<int32_t>(c[1]) : 0;
    params.c_column_stride = c.rank > 0 && c[c.rank - 1] > 1 ? 1 : 0;
  }
  params.activation = read_activation(node.node());
  if (product.b_batch.num_elements() == 1) {
    params.m = static_cast<int32_t>(product.batch.num_elements() * product.m);
    return params;
  }
  params.batch_rank = product.batch.rank;
  for (int i = 0; i < product.batch.rank; ++i) params.batch_dims[i] = static_cast<int32_t>(product.batch[i]);
  batch_steps(product.a_batch, product.batch, params.a_steps);
  batch_steps(product.b_batch, product.batch, params.b_steps);
  return params;
}

ParamBytes make_params(const NodeView& node) { return pack_params(params_of(node)); }

// A constant c that is the same for every row goes into the packed panels.
const Tensor* constant_bias(const NodeView& node, const MatmulParams& params) {
  return params.c_row_stride == 0 ? node.constant(2) : nullptr;
}

TensorPtr pack_weights(const MatmulParams& params, const Tensor& weights, const Tensor* bias) {
  auto packed = std::make_shared<Tensor>(DType::kF32, Shape{packed_b_floats(params.n, params.k)});
  if (packed->data() == nullptr) return nullptr;
  SourceB b;
  b.data = weights.as<float>();
  b.n = params.n;
  b.k_inner = params.k;
  b.n_stride = params.trans_b ? params.k : 1;
  b.inner_stride = params.trans_b ? 1 : params.n;
  b.scale = params.alpha;
  if (bias != nullptr) {
    b.bias = bias->as<float>();
    b.bias_stride = params.c_column_stride;
    b.bias_scale = params.beta;
  }
  pack_b(b, &serial_parallel(), packed->as<float>());
  return packed;
}

size_t align64(size_t bytes) { return (bytes + 63) / 64 * 64; }

Status lower(const NodeView& node, Lowering& out) {
  const MatmulParams params = params_of(node);
  const auto operand = [&](int i) {
    return Operand{node.has_input(i) ? node.node().inputs[size_t(i)] : kNoValue, nullptr};
  };
  out.params = pack_params(params);
  out.outputs = node.node().outputs;
  out.inputs = {operand(0), operand(1), operand(2)};
  int64_t batches = 1;
  for (int i = 0; i < params.batch_rank; ++i) batches *= params.batch_dims[i];
  out.macs = batches * params.m * params.n * params.k;
  const bool fits = packed_b_floats(params.n, params.k) <= INT32_MAX;
  if (node.input_dtype(0) != DType::kF32 || out.macs == 0 || !fits) {
    out.kernel = "matmul_any_plain";
    return {};
  }
  out.scratch_bytes = gemm_scratch_bytes(1, params.m, params.n, params.k, matrix_form(params.trans_a != 0));
  const Tensor* weights = node.constant(1);
  if (weights == nullptr || params.batch_rank != 0) {
    out.kernel = "matmul_f32_gemm8_dynamic";
    out.scratch_bytes += align64(static_cast<size_t>(packed_b_floats(params.n, params.k)) * sizeof(float));
    return {};
  }
  out.kernel = "matmul_f32_gemm8";
  const Tensor* bias = constant_bias(node, params);
  out.inputs[1] = {kNoValue, pack_weights(params, *weights, bias)};
  if (out.inputs[1].packed == nullptr) return {Code::kOutOfMemory, "no memory for packed weights", node.node().name};
  if (bias != nullptr) out.inputs[2] = {};
  return {};
}

}  // namespace

std::span<const OpDef> definitions() {
  static const OpDef kDefs[] = {
      {"Gemm", "", 1,
       "y = alpha * A' * B' + beta * C; transA, transB, C broadcasts to the output; f32 (other floats, i32, "
       "u32, i64, u64 "
       "run plainly)",
       infer, make_params, matmul_reference, nullptr, lower},
      {"MatMul", "", 1, "y = A * B by NumPy's rules; f32 (other floats, i32, u32, i64, u64 run plainly)", infer,
       make_params, matmul_reference, nullptr, lower},
  };
  return kDefs;
}

}  // namespace kiln::ops::matmul
