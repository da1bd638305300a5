#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"
#include "ops/quantize/quantize.h"

using namespace kiln;
using namespace kiln::test;

namespace {

Tensor f32(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return make_tensor(DType::kF32, {n}, values);
}

Tensor scalar(DType dtype, double value) { return make_tensor(dtype, {}, {value}); }

}  // namespace

TEST_CASE("quantize_rounds_half_to_even_and_saturates") {
  OpTest test("QuantizeLinear", 13);
  test.input(f32({0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 1e30, -1e30, INFINITY, -INFINITY, NAN}));
  test.constant(scalar(DType::kF32, 1)).constant(scalar(DType::kI8, 0));
  test.expect_reference(0, {11}, {0, 2, 2, 0, -2, 127, 127, -128, 127, -128, -128});
  test.expect_kernel_matches_reference(0);
  OpTest by_zero("QuantizeLinear", 13);
  by_zero.input(f32({1, -1, 0})).constant(scalar(DType::kF32, 0)).constant(scalar(DType::kU8, 7));
  by_zero.expect_reference(0, {3}, {255, 0, 0});
  by_zero.expect_kernel_matches_reference(0);
}

TEST_CASE("quantize_divides_as_f32") {
  // 0.25 / 0.1f is 2.5 in f32 and a little less in double.
  OpTest test("QuantizeLinear", 13);
  test.input(f32({0.25, 0.35, 0.15})).constant(scalar(DType::kF32, 0.1f));
  test.expect_reference(0, {3}, {2, 4, 2});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("quantize_every_dtype_and_form") {
  for (DType to : {DType::kU8, DType::kI8, DType::kU16, DType::kI16}) {
    for (DType from : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32}) {
      const double zero_point = is_unsigned(to) ? 100 : -3;
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{37}, Shape{2, 3, 5, 7}, Shape{0, 4}, Shape{3, 100, 210}}) {
        INFO(dtype_name(from), " to ", dtype_name(to), ", ", print_shape(shape));
        OpTest test("QuantizeLinear", 21);
        test.input(random_tensor(shape, 1, -200, 200, from)).constant(scalar(DType::kF32, 0.731));
        test.constant(scalar(to, zero_point));
        test.expect_kernel_matches_reference(0);
      }
      OpTest per_axis("QuantizeLinear", 21);
      per_axis.input(random_tensor({2, 3, 5}, 1, -200, 200, from)).attr("axis", int64_t{-2});
      per_axis.input(make_tensor(DType::kF32, {3}, {0.5, 2, 1.3})).input(make_tensor(to, {3}, {1, 2, 3}));
      per_axis.expect_kernel_matches_reference(0);
    }
  }
  OpTest absent("QuantizeLinear", 21);
  absent.input(random_tensor({40}, 1, -9, 9)).input(f32({0.1})).attr("output_dtype", int64_t{3});
  absent.expect_kernel_matches_reference(0);
}

TEST_CASE("dequantize_every_dtype_and_form") {
  for (DType from : {DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kI32}) {
    for (DType to : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{37}, Shape{2, 3, 5, 7}, Shape{3, 100, 210}}) {
        INFO(dtype_name(from), " to ", dtype_name(to), ", ", print_shape(shape));
        OpTest test("DequantizeLinear", 21);
        test.input(random_tensor(shape, 1, is_unsigned(from) ? 0 : -128, is_unsigned(from) ? 255 : 127, from));
        test.constant(scalar(to, 0.0371)).constant(scalar(from, 5));
        test.expect_kernel_matches_reference(0);
      }
      OpTest per_axis("DequantizeLinear", 21);
      per_axis.input(random_tensor({2, 3, 5}, 1, 0, 100, from)).attr("axis", int64_t{0});
      per_axis.input(make_tensor(to, {2}, {0.5, 2})).absent();
      per_axis.expect_kernel_matches_reference(0);
    }
  }
  OpTest test("DequantizeLinear", 10);
  test.input(make_tensor(DType::kU8, {4}, {0, 3, 128, 255})).constant(scalar(DType::kF32, 2));
  test.constant(scalar(DType::kU8, 128));
  test.expect_reference(0, {4}, {-256, -250, 0, 254}, 0);
}

TEST_CASE("quantize_refuses_what_it_has_not") {
  const Tensor x = random_tensor({4, 4}, 1);
  OpTest blocked("QuantizeLinear", 21);
  blocked.attr("block_size", int64_t{2}).input(x).constant(random_tensor({2, 4}, 2, 1, 2));
  blocked.expect_problem("block_size=2 is not supported");
  OpTest fp8("QuantizeLinear", 21);
  fp8.attr("output_dtype", int64_t{17}).input(x).constant(f32({1})).expect_problem("output_dtype=17");
  OpTest scales("QuantizeLinear", 13);
  scales.input(x).constant(f32({1, 2, 3})).expect_problem("shape of scale");
  OpTest zero_points("DequantizeLinear", 13);
  zero_points.input(make_tensor(DType::kU8, {1}, {1})).constant(f32({1})).constant(make_tensor(DType::kI8, {1}, {1}));
  zero_points.expect_problem("dtype of zero_point");
}

TEST_CASE("quantize_dynamic_takes_the_range_of_x") {
  OpTest test("DynamicQuantizeLinear", 11);
  test.input(f32({0, 2, -3, -2.5, 1.34, 0.5})).outputs(3);
  test.expect_reference(0, {6}, {153, 255, 0, 26, 221, 179});
  test.expect_reference(1, {}, {0.0196078438});
  test.expect_reference(2, {}, {153});
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 100, 211}, Shape{0}}) {
    for (double low : {-3.0, 1.0, -9.0}) {
      OpTest any("DynamicQuantizeLinear", 11);
      any.input(random_tensor(shape, 1, low, low + 5)).outputs(3).expect_kernel_matches_reference(0);
    }
  }
  OpTest zeros("DynamicQuantizeLinear", 11);
  zeros.input(f32({0, 0})).outputs(3).expect_reference(1, {}, {1});
}

TEST_CASE("quantize_checks_hold_against_changed_steps") {
  const Tensor x = random_tensor({3, 5, 17}, 1, -9, 9);
  const Tensor q = random_tensor({3, 5, 17}, 1, -100, 100, DType::kI8);
  OpTest("QuantizeLinear", 13).input(x).constant(f32({0.1})).expect_check_guards();
  OpTest("QuantizeLinear", 13).input(x).input(random_tensor({5}, 2, 1, 2)).expect_check_guards();
  OpTest("DequantizeLinear", 13).input(q).constant(f32({0.1})).expect_check_guards();
  OpTest("DequantizeLinear", 13).input(q).input(random_tensor({5}, 2, 1, 2)).expect_check_guards();
  OpTest("DynamicQuantizeLinear", 11).input(x).outputs(3).expect_check_guards();
}
