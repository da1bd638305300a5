#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

OpTest binary_test(const char* function, DType a, DType b, const Shape& a_shape, const Shape& b_shape) {
  const auto lowest = [](DType dtype) { return dtype == DType::kI8 ? -128.0 : 0.0; };
  OpTest test("QuantBinary", 1, "kiln");
  test.input(random_tensor(a_shape, 3, lowest(a), lowest(a) + 256, a));
  test.input(random_tensor(b_shape, 4, lowest(b), lowest(b) + 256, b));
  test.attr("function", std::string(function)).attr("y_dtype", std::string(a == DType::kI8 ? "i8" : "u8"));
  test.attr("a_scale", 0.03f).attr("a_zero", int64_t{a == DType::kI8 ? -3 : 120});
  test.attr("b_scale", 0.05f).attr("b_zero", int64_t{b == DType::kI8 ? 9 : 0});
  test.attr("y_scale", 0.06f).attr("y_zero", int64_t{a == DType::kI8 ? 0 : 77});
  return test;
}

}  // namespace

TEST_SUITE("ops/quant_pointwise") {
  TEST_CASE("binary_gives_the_bits_of_the_reference") {
    const Shape pairs[][2] = {
        {{1, 5, 7, 24}, {1, 5, 7, 24}}, {{2, 3, 5, 9}, {2, 1, 1, 9}}, {{7}, {1}}, {{3, 4}, {4, 1, 1}},
        {{2, 0, 3}, {2, 0, 3}},         {{1, 40, 40, 16}, {16}}};
    for (const char* function : {"Add", "Mul"}) {
      for (const auto& pair : pairs) {
        CAPTURE(print_shape(pair[0]));
        binary_test(function, DType::kU8, DType::kU8, pair[0], pair[1]).expect_kernel_matches_reference(0);
        binary_test(function, DType::kI8, DType::kU8, pair[0], pair[1]).expect_kernel_matches_reference(0);
        binary_test(function, DType::kU8, DType::kI8, pair[0], pair[1])
            .attr("activation", std::string("Clip"))
            .attr("activation_b", 3.0f)
            .expect_kernel_matches_reference(0);
      }
    }
  }

  TEST_CASE("sums_round_half_to_even_and_saturate") {
    OpTest test("QuantBinary", 1, "kiln");
    test.input(make_tensor(DType::kI8, {5}, {1, 3, -1, 127, -128}));
    test.input(make_tensor(DType::kI8, {5}, {0, 0, 0, 127, -128}));
    test.attr("function", std::string("Add")).attr("y_dtype", std::string("i8"));
    test.attr("a_scale", 0.5f).attr("b_scale", 2.0f).attr("y_scale", 1.0f);
    test.expect_reference(0, {5}, {0, 2, 0, 127, -128}, 0);
    test.expect_kernel_matches_reference(0);
  }

  TEST_CASE("table_looks_up_the_bits") {
    for (DType dtype : {DType::kU8, DType::kI8}) {
      OpTest test("QuantTable", 1, "kiln");
      test.input(
          random_tensor({2, 3, 5, 17}, 1, dtype == DType::kI8 ? -128 : 0, dtype == DType::kI8 ? 128 : 256, dtype));
      test.constant(random_tensor({256}, 2, -128, 128, DType::kI8));
      test.expect_kernel_matches_reference(0);
      test.expect_check_guards();
    }
  }

  TEST_CASE("checks_guard_against_hostile_steps") {
    binary_test("Add", DType::kU8, DType::kI8, {2, 3, 5, 9}, {2, 1, 1, 9}).expect_check_guards();
    binary_test("Mul", DType::kU8, DType::kU8, {1, 5, 7, 24}, {1, 5, 7, 24}).expect_check_guards();
  }

  TEST_CASE("wrong_forms_are_refused") {
    binary_test("Sub", DType::kU8, DType::kU8, {2}, {2}).expect_problem("function");
    binary_test("Add", DType::kU8, DType::kU8, {2}, {3}).expect_problem("shapes");
    binary_test("Add", DType::kU8, DType::kU8, {2}, {2}).attr("y_scale", 0.0f).expect_problem("y_scale");
  }
}

}  // namespace kiln::test
