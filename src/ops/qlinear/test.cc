#include <doctest/doctest.h>

#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr DType kBoth[] = {DType::kU8, DType::kI8};

Tensor q8(DType dtype, const Shape& shape, uint64_t seed) {
  return dtype == DType::kU8 ? random_tensor(shape, seed, 0, 256, dtype) : random_tensor(shape, seed, -128, 128, dtype);
}

Tensor all(DType dtype, const Shape& shape, double value) {
  return make_tensor(dtype, shape, std::vector<double>(static_cast<size_t>(shape.num_elements()), value));
}

Tensor one(DType dtype, double value) { return make_tensor(dtype, {}, {value}); }

Tensor zeros_of(DType dtype, int64_t n, uint64_t seed) { return random_tensor(Shape{n}, seed, 0, 20, dtype); }

}  // namespace

TEST_CASE("matmul_integer_is_exact_at_full_range") {
  OpTest test("MatMulInteger", 10);
  test.input(all(DType::kU8, {2, 64}, 255)).constant(all(DType::kI8, {64, 3}, -128));
  test.expect_reference(0, {2, 3}, std::vector<double>(6, 64.0 * 255 * -128), 0);
  test.expect_kernel_matches_reference(0);
  OpTest widest("MatMulInteger", 10);
  widest.input(all(DType::kU8, {1, 64}, 255)).constant(all(DType::kI8, {64, 1}, -128));
  widest.input(one(DType::kU8, 0)).input(one(DType::kI8, 127));
  widest.expect_reference(0, {1, 1}, {64.0 * 255 * -255}, 0);
}

TEST_CASE("matmul_integer_every_pair_of_dtypes") {
  for (DType a : kBoth) {
    for (DType b : kBoth) {
      INFO(dtype_name(a), " ", dtype_name(b));
      OpTest plain("MatMulInteger", 10);
      plain.input(q8(a, {3, 5}, 1)).input(q8(b, {5, 70}, 2)).expect_kernel_matches_reference(0);
      OpTest zeros("MatMulInteger", 10);
      zeros.input(q8(a, {3, 5}, 1)).input(q8(b, {5, 70}, 2)).input(zeros_of(a, 3, 3)).input(zeros_of(b, 70, 4));
      zeros.expect_kernel_matches_reference(0);
      OpTest batches("MatMulInteger", 10);
      batches.input(q8(a, {2, 1, 3, 5}, 1)).input(q8(b, {4, 5, 7}, 2)).input(one(a, 9)).input(one(b, 11));
      batches.expect_kernel_matches_reference(0);
      OpTest vectors("MatMulInteger", 10);
      vectors.input(q8(a, {5}, 1)).input(q8(b, {5}, 2)).expect_kernel_matches_reference(0);
    }
  }
  OpTest rows("MatMulInteger", 10);
  rows.input(make_tensor(DType::kU8, {2, 2}, {1, 2, 3, 4})).input(make_tensor(DType::kI8, {2, 2}, {1, -1, 2, 3}));
  rows.input(make_tensor(DType::kU8, {2}, {1, 3})).input(make_tensor(DType::kI8, {2}, {0, -1}));
  rows.expect_reference(0, {2, 2}, {2, 4, 2, 4}, 0);
}

TEST_CASE("conv_integer_pads_with_the_zero_point") {
  OpTest test("ConvInteger", 10);
  test.input(make_tensor(DType::kU8, {1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}));
  test.input(all(DType::kU8, {1, 1, 2, 2}, 1)).input(one(DType::kU8, 1)).ints("pads", {1, 1, 1, 1});
  test.expect_reference(0, {1, 1, 4, 4}, {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9}, 0);
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("conv_integer_and_qlinear_conv_every_form") {
  for (DType a : kBoth) {
    for (DType b : kBoth) {
      INFO(dtype_name(a), " ", dtype_name(b));
      OpTest integer("ConvInteger", 10);
      integer.input(q8(a, {2, 4, 6, 70}, 1)).input(q8(b, {6, 2, 3, 2}, 2)).input(one(a, 7)).input(zeros_of(b, 6, 3));
      integer.ints("pads", {1, 0, 2, 1}).ints("strides", {2, 1}).ints("dilations", {1, 2}).attr("group", int64_t{2});
      integer.expect_kernel_matches_reference(0);
      OpTest quantized("QLinearConv", 10);
      quantized.input(q8(a, {1, 3, 5, 5}, 1)).input(one(DType::kF32, 0.01)).input(one(a, 100));
      quantized.input(q8(b, {4, 3, 3, 3}, 2)).input(random_tensor({4}, 3, 0.01, 0.03)).input(zeros_of(b, 4, 3));
      quantized.input(one(DType::kF32, 0.1)).input(one(a, 3)).input(random_tensor({4}, 5, -900, 900, DType::kI32));
      quantized.attr("auto_pad", std::string("SAME_UPPER")).expect_kernel_matches_reference(0);
    }
  }
  OpTest line("ConvInteger", 10);
  line.input(q8(DType::kU8, {1, 2, 9}, 1)).input(q8(DType::kI8, {3, 2, 3}, 2)).expect_kernel_matches_reference(0);
  OpTest solid("ConvInteger", 10);
  solid.input(q8(DType::kU8, {1, 2, 3, 4, 5}, 1)).input(q8(DType::kI8, {3, 2, 2, 2, 2}, 2));
  solid.expect_kernel_matches_reference(0);
}

TEST_CASE("qlinear_matmul_rounds_half_to_even_and_saturates") {
  OpTest test("QLinearMatMul", 10);
  test.input(make_tensor(DType::kU8, {6, 1}, {1, 3, 5, 255, 0, 2}))
      .input(one(DType::kF32, 0.5))
      .input(one(DType::kU8, 0));
  test.input(all(DType::kI8, {1, 1}, 1)).input(one(DType::kF32, 1)).input(one(DType::kI8, 0));
  test.input(one(DType::kF32, 1)).input(one(DType::kI8, 1));
  test.expect_reference(0, {6, 1}, {1, 3, 3, 127, 1, 2}, 0);
  test.expect_kernel_matches_reference(0);
  OpTest rows("QLinearMatMul", 10);
  rows.input(q8(DType::kI8, {2, 3, 9}, 1)).input(random_tensor({3}, 2, 0.01, 0.05)).input(zeros_of(DType::kI8, 3, 3));
  rows.input(q8(DType::kU8, {9, 7}, 4)).input(random_tensor({7}, 5, 0.01, 0.05)).input(zeros_of(DType::kU8, 7, 6));
  rows.input(random_tensor({3}, 7, 0.1, 0.2)).input(zeros_of(DType::kU8, 3, 8));
  rows.expect_kernel_matches_reference(0);
}

TEST_CASE("qlinear_refuses_what_does_not_fit") {
  OpTest floats("MatMulInteger", 10);
  floats.input(random_tensor({2, 2}, 1)).input(q8(DType::kU8, {2, 2}, 1)).expect_problem("dtype of input");
  OpTest shapes("MatMulInteger", 10);
  shapes.input(q8(DType::kU8, {2, 3}, 1)).input(q8(DType::kU8, {2, 2}, 1)).expect_problem("shape of B");
  OpTest zeros("MatMulInteger", 10);
  zeros.input(q8(DType::kU8, {2, 3}, 1)).input(q8(DType::kU8, {3, 2}, 1)).input(zeros_of(DType::kU8, 3, 1));
  zeros.expect_problem("shape of input 2");
  OpTest dtypes("ConvInteger", 10);
  dtypes.input(q8(DType::kU8, {1, 1, 2, 2}, 1)).input(q8(DType::kI8, {1, 1, 1, 1}, 1)).input(one(DType::kI8, 1));
  dtypes.expect_problem("dtype of input 2");
  OpTest none("QLinearConcat", 1, "com.microsoft");
  none.input(one(DType::kF32, 1)).input(one(DType::kU8, 1)).expect_problem("number of inputs");
  OpTest wide("QLinearSigmoid", 1, "com.microsoft");
  wide.input(q8(DType::kU8, {2}, 1)).input(one(DType::kF32, 1)).absent().input(one(DType::kF32, 1));
  wide.input(one(DType::kI32, 1)).expect_problem("output scale or zero point");
  OpTest few("QLinearAdd", 1, "com.microsoft");
  few.input(q8(DType::kU8, {2}, 1)).input(one(DType::kF32, 1)).expect_problem("number of inputs");
}

TEST_CASE("qlinear_checks_hold_against_changed_steps") {
  OpTest matmul("MatMulInteger", 10);
  matmul.input(q8(DType::kU8, {2, 3, 5}, 1)).input(q8(DType::kI8, {2, 5, 4}, 2)).input(zeros_of(DType::kU8, 3, 3));
  matmul.expect_check_guards(2000);
  OpTest quantized("QLinearMatMul", 10);
  quantized.input(q8(DType::kU8, {3, 5}, 1)).input(one(DType::kF32, 0.5)).input(one(DType::kU8, 0));
  quantized.input(q8(DType::kU8, {5, 4}, 1)).constant(random_tensor({4}, 5)).input(one(DType::kU8, 0));
  quantized.input(one(DType::kF32, 1)).input(one(DType::kI8, 1)).expect_check_guards(2000);
  OpTest conv("QLinearConv", 10);
  conv.input(q8(DType::kU8, {1, 4, 5, 6}, 1)).input(one(DType::kF32, 0.01)).input(one(DType::kU8, 100));
  conv.input(q8(DType::kI8, {6, 2, 3, 2}, 2)).input(random_tensor({6}, 3)).input(zeros_of(DType::kI8, 6, 3));
  conv.input(one(DType::kF32, 0.1)).input(one(DType::kU8, 3)).constant(random_tensor({6}, 5, -900, 900, DType::kI32));
  conv.ints("pads", {1, 0, 2, 1}).attr("group", int64_t{2}).expect_check_guards(3000);
}
