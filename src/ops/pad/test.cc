#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"

namespace kiln::test {
namespace {

const Tensor kRow = make_tensor(DType::kF32, {1, 4}, {1, 2, 3, 4});

OpTest pad(const Tensor& x, std::vector<int64_t> pads, const char* mode, int opset = 13) {
  OpTest test("Pad", opset);
  test.attr("mode", std::string(mode)).input(x).constant_i64(std::move(pads));
  return test;
}

}  // namespace

TEST_CASE("pad_modes") {
  pad(kRow, {0, 2, 0, 1}, "constant").expect_reference(0, {1, 7}, {0, 0, 1, 2, 3, 4, 0});
  pad(kRow, {0, 2, 0, 1}, "edge").expect_reference(0, {1, 7}, {1, 1, 1, 2, 3, 4, 4});
  pad(kRow, {0, 2, 0, 1}, "reflect").expect_reference(0, {1, 7}, {3, 2, 1, 2, 3, 4, 3});
  pad(kRow, {0, 2, 0, 1}, "wrap", 19).expect_reference(0, {1, 7}, {3, 4, 1, 2, 3, 4, 1});
  pad(kRow, {0, 7, 0, 7}, "reflect")
      .expect_reference(0, {1, 18}, {2, 1, 2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1, 2, 3, 4, 3});
  pad(kRow, {0, 5, 0, 6}, "wrap", 19).expect_reference(0, {1, 15}, {4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2});
  pad(kRow, {2, 0, 1, 0}, "reflect").expect_reference(0, {4, 4}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
}

TEST_CASE("pad_negative_amounts_crop") {
  pad(kRow, {0, -1, 0, 2}, "constant").expect_reference(0, {1, 5}, {2, 3, 4, 0, 0});
  pad(kRow, {0, 1, 0, -2}, "edge").expect_reference(0, {1, 3}, {1, 1, 2});
  pad(kRow, {0, -1, 0, -1}, "reflect").expect_reference(0, {1, 2}, {2, 3});
  pad(kRow, {0, -3, 0, -1}, "constant").expect_reference(0, {1, 0}, {});
  pad(kRow, {0, -6, 0, 5}, "constant").expect_reference(0, {1, 3}, {0, 0, 0});
}

TEST_CASE("pad_constant_value_absent_given_or_infinite") {
  OpTest absent("Pad", 13);
  absent.input(kRow).constant_i64({0, 1, 0, 0}).absent().expect_reference(0, {1, 5}, {0, 1, 2, 3, 4});
  absent.expect_kernel_matches_reference(0);
  OpTest given("Pad", 13);
  given.input(kRow).constant_i64({0, 1, 0, 0}).constant(make_f32_scalar(-INFINITY));
  given.expect_reference(0, {1, 5}, {-INFINITY, 1, 2, 3, 4});
  given.expect_kernel_matches_reference(0);
  OpTest computed("Pad", 13);
  computed.input(kRow).constant_i64({1, 1, 0, 0}).input(make_tensor(DType::kF32, {1}, {9}));
  computed.expect_kernel_matches_reference(0);
}

TEST_CASE("pad_opset_2_has_attributes") {
  OpTest test("Pad", 10);
  test.ints("pads", {0, 1, 0, 1}).attr("value", 2.5f).input(kRow);
  test.expect_reference(0, {1, 6}, {2.5, 1, 2, 3, 4, 2.5});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("pad_opset_18_has_axes") {
  OpTest test("Pad", 18);
  test.input(kRow).constant_i64({1, 2}).absent().constant(make_tensor(DType::kI32, {1}, {-1}));
  test.expect_reference(0, {1, 7}, {0, 1, 2, 3, 4, 0, 0});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("pad_kernel_matches_reference") {
  const struct {
    Shape x;
    std::vector<int64_t> pads;
  } cases[] = {
      {{1, 7, 9, 5}, {0, 1, 2, 0, 0, 2, 1, 0}},  {{1, 3, 6, 7}, {0, 0, 1, 1, 0, 0, 1, 1}},
      {{1, 16, 8, 8}, {0, 8, 0, 0, 0, 8, 0, 0}}, {{1, 5, 5, 16}, {0, 0, 0, 8, 0, 0, 0, 8}},
      {{2, 3, 4}, {1, -1, 2, 0, 2, -3}},         {{6}, {3, 4}},
      {{3, 64, 80}, {1, 1, 1, 1, 1, 1}},         {{2, 3}, {0, 0, 0, 0}},
  };
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    for (const auto& c : cases) {
      for (DType dtype : {DType::kF32, DType::kU8, DType::kF16, DType::kI64}) {
        CAPTURE(mode);
        CAPTURE(print_shape(c.x));
        pad(random_tensor(c.x, 3, 0, 100, dtype), c.pads, mode, 19).expect_kernel_matches_reference(0);
      }
    }
  }
}

TEST_CASE("pad_of_empty_tensors_and_scalars") {
  pad(Tensor(DType::kF32, {0, 2}), {1, 0, 1, 0}, "constant").expect_reference(0, {2, 2}, {0, 0, 0, 0});
  pad(Tensor(DType::kF32, {0, 2}), {1, 0, 1, 0}, "constant").expect_kernel_matches_reference(0);
  pad(Tensor(DType::kF32, {0, 2}), {1, 0, 1, 0}, "edge").expect_problem("mode");
  pad(make_f32_scalar(4), {}, "constant").expect_reference(0, {}, {4});
  pad(make_f32_scalar(4), {}, "constant").expect_kernel_matches_reference(0);
}

TEST_CASE("pad_rejects_what_does_not_fit") {
  pad(kRow, {0, 1}, "constant").expect_problem("4 numbers");
  pad(kRow, {0, -3, 0, -2}, "constant").expect_problem("dims that stay >= 0");
  pad(kRow, {0, 1, 0, 1}, "mirror").expect_problem("mode");
  pad(kRow, {0, INT64_MAX, 0, 1}, "constant").expect_problem("dims that stay");
  pad(kRow, {0, 2000000000, 2000000000, 1}, "constant").expect_problem("fewer than 2^31");
  OpTest run_time("Pad", 13);
  run_time.input(kRow).input(make_tensor(DType::kI64, {4}, {0, 0, 0, 0})).expect_problem("pads");
  OpTest axes("Pad", 18);
  axes.input(kRow).constant_i64({1, 2}).absent().constant_i64({2}).expect_problem("different axes");
  OpTest value("Pad", 13);
  value.input(kRow)
      .constant_i64({0, 1, 0, 0})
      .constant(make_tensor(DType::kF32, {2}, {1, 2}))
      .expect_problem("one element");
}

TEST_CASE("pad_check_guards") {
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    pad(random_tensor({2, 3, 4}, 1), {1, 0, 2, 0, 1, 1}, mode, 19).expect_check_guards();
  }
}

}  // namespace kiln::test
