#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::kF32) {
  return random_tensor(shape, seed, -2, 2, dtype);
}

// Sums of k products of magnitude 4 rounded in another order.
double tolerance_of(int64_t k) { return 1e-6 * std::sqrt(static_cast<double>(k) + 1); }

}  // namespace

TEST_CASE("matmul: shapes by NumPy's rules, B constant and computed") {
  const struct {
    Shape a, b;
  } cases[] = {
      {{3, 4}, {4, 5}},
      {{1, 400}, {400, 17}},
      {{65, 130}, {130, 33}},
      {{4}, {4, 5}},
      {{3, 4}, {4}},
      {{7}, {7}},
      {{2, 3, 4}, {4, 5}},
      {{2, 3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {5, 4, 2}},
      {{4, 5}, {3, 2, 5, 6}},
      {{1, 2, 16, 49}, {1, 2, 49, 49}},
      {{2, 4}, {1, 4, 3}},
      {{5}, {3, 5, 2}},
      {{3, 2, 5}, {5}},
      {{0, 4}, {4, 5}},
      {{2, 0}, {0, 3}},
  };
  uint64_t seed = 1;
  for (const auto& c : cases) {
    CAPTURE(print_shape(c.a));
    CAPTURE(print_shape(c.b));
    const int64_t k = c.a[c.a.rank - 1];
    const Tensor a = random(c.a, ++seed);
    const Tensor b = random(c.b, ++seed);
    OpTest("MatMul").input(a).input(b).expect_kernel_matches_reference(tolerance_of(k));
    OpTest("MatMul").input(a).constant(b).expect_kernel_matches_reference(tolerance_of(k));
  }
}

TEST_CASE("matmul: no batches at all") {
  OpTest("MatMul").input(random({1, 2, 3, 4}, 1)).input(random({0, 2, 4, 3}, 2)).expect_kernel_matches_reference(0);
  OpTest("MatMul").input(random({0, 3, 4}, 1)).constant(random({4, 3}, 2)).expect_kernel_matches_reference(0);
}

TEST_CASE("matmul: integers and other floats") {
  for (DType dtype : {DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kF64, DType::kF16}) {
    CAPTURE(dtype_name(dtype));
    OpTest("MatMul")
        .input(random_tensor({2, 3}, 5, 0, 50, dtype))
        .input(random_tensor({3, 4}, 6, 0, 50, dtype))
        .expect_kernel_matches_reference(1e-3);
  }
  OpTest("MatMul")
      .input(make_tensor(DType::kI32, {1, 2}, {65536, 3}))
      .input(make_tensor(DType::kI32, {2, 1}, {65536, 4}))
      .expect_reference(0, {1, 1}, {12});  // wraps
}

TEST_CASE("matmul: bias and activation that passes add") {
  OpTest("MatMul")
      .input(random({9, 20}, 1))
      .constant(random({20, 11}, 2))
      .constant(random({11}, 3))
      .attr("activation", std::string("Silu"))
      .expect_kernel_matches_reference(1e-5);
  OpTest("MatMul")
      .input(random({2, 9, 20}, 1))
      .input(random({2, 20, 11}, 2))
      .input(random({11}, 3))
      .attr("activation", std::string("Clip"))
      .attr("activation_a", 0.0f)
      .attr("activation_b", 6.0f)
      .expect_kernel_matches_reference(1e-5);
}

TEST_CASE("gemm: transposes, alpha, beta and every shape of C") {
  const Shape c_shapes[] = {{}, {1}, {13}, {1, 13}, {6, 1}, {6, 13}, {1, 1}};
  uint64_t seed = 10;
  for (const Shape& c : c_shapes) {
    for (int bits = 0; bits < 8; ++bits) {
      const bool trans_a = bits & 1;
      const bool trans_b = bits & 2;
      const bool constant = bits & 4;
      CAPTURE(print_shape(c));
      CAPTURE(bits);
      OpTest test("Gemm");
      test.attr("transA", int64_t{trans_a}).attr("transB", int64_t{trans_b}).attr("alpha", 0.5f).attr("beta", 2.0f);
      test.input(random(trans_a ? Shape{9, 6} : Shape{6, 9}, ++seed));
      const Tensor b = random(trans_b ? Shape{13, 9} : Shape{9, 13}, ++seed);
      const Tensor c_values = random(c, ++seed);
      if (constant)
        test.constant(b).constant(c_values);
      else
        test.input(b).input(c_values);
      test.expect_kernel_matches_reference(1e-5);
    }
  }
  OpTest("Gemm").input(random({1, 512}, 1)).constant(random({512, 1000}, 2)).expect_kernel_matches_reference(1e-4);
  OpTest("Gemm", 11)
      .input(random({3, 8}, 1))
      .constant(random({8, 2}, 2))
      .absent()
      .expect_kernel_matches_reference(1e-5);
}

TEST_CASE("gemm: known values") {
  OpTest("Gemm")
      .input(make_tensor(DType::kF32, {2, 2}, {1, 2, 3, 4}))
      .constant(make_tensor(DType::kF32, {2, 2}, {5, 6, 7, 8}))
      .constant(make_tensor(DType::kF32, {2}, {100, 200}))
      .expect_reference(0, {2, 2}, {119, 222, 143, 250});
}

TEST_CASE("matmul: kernels by what is constant") {
  CHECK(OpTest("MatMul").input(random({2, 3}, 1)).constant(random({3, 4}, 2)).kernel_name() == "matmul_f32_gemm8");
  CHECK(OpTest("MatMul").input(random({2, 3}, 1)).input(random({3, 4}, 2)).kernel_name() == "matmul_f32_gemm8_dynamic");
}

TEST_CASE("matmul: bad forms are told") {
  OpTest("MatMul").input(random({2, 3}, 1)).input(random({4, 5}, 2)).expect_problem("shape of B=[4, 5]");
  OpTest("MatMul").input(random({2, 2, 3}, 1)).input(random({3, 3, 5}, 2)).expect_problem("multiplies with A");
  OpTest("Gemm").input(random({2, 3, 1}, 1)).input(random({3, 5}, 2)).expect_problem("rank of A, B=3, 2");
  OpTest("Gemm")
      .input(random({2, 3}, 1))
      .input(random({3, 5}, 2))
      .input(random({4}, 3))
      .expect_problem("shape of C=[4]");
  OpTest("MatMul")
      .input(random({2, 3}, 1))
      .input(random_tensor({3, 5}, 2, 0, 9, DType::kI32))
      .expect_problem("dtype of input 1=i32");
}

TEST_CASE("matmul: checks hold against changed steps") {
  const Tensor b = random({4, 5}, 2);
  OpTest("MatMul").input(random({3, 4}, 1)).constant(b).expect_check_guards();
  OpTest("MatMul").input(random({1, 4}, 1)).constant(b).constant(random({5}, 3)).expect_check_guards();
  OpTest("MatMul").input(random({3, 4}, 1)).constant(b).input(random({5}, 3)).expect_check_guards();
  OpTest("MatMul").input(random({2, 1, 3, 4}, 1)).input(random({5, 4, 2}, 2)).expect_check_guards();
  OpTest("MatMul").input(random({2, 3, 4}, 1, DType::kI64)).input(random({4, 5}, 2, DType::kI64)).expect_check_guards();
  for (const Shape& c : {Shape{}, Shape{5}, Shape{3, 1}, Shape{3, 5}}) {
    OpTest("Gemm").input(random({3, 4}, 1)).constant(b).input(random(c, 3)).expect_check_guards();
    OpTest("Gemm")
        .attr("transA", int64_t{1})
        .attr("transB", int64_t{1})
        .input(random({4, 3}, 1))
        .input(random({5, 4}, 2))
        .input(random(c, 3))
        .expect_check_guards();
  }
}
