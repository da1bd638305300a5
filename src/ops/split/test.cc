#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {

TEST_CASE("split_lengths_as_attribute") {
  OpTest test("Split", 11);
  test.ints("split", {1, 3}).attr("axis", int64_t{1}).input(make_tensor(DType::kI32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  test.outputs(2).expect_reference(0, {2, 1}, {1, 5});
  test.expect_reference(1, {2, 3}, {2, 3, 4, 6, 7, 8});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("split_lengths_as_input") {
  OpTest test("Split", 13);
  test.attr("axis", int64_t{-1}).input(make_tensor(DType::kF32, {5}, {1, 2, 3, 4, 5})).constant_i64({2, 0, 3});
  test.outputs(3).expect_reference(0, {2}, {1, 2});
  test.expect_reference(1, {0}, {});
  test.expect_reference(2, {3}, {3, 4, 5});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("split_num_outputs_leaves_the_last_one_shorter") {
  OpTest test("Split", 18);
  test.attr("num_outputs", int64_t{2}).input(make_tensor(DType::kF32, {5}, {1, 2, 3, 4, 5}));
  test.outputs(2).expect_reference(0, {3}, {1, 2, 3});
  test.expect_reference(1, {2}, {4, 5});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("split_equal_parts_of_any_axis_and_dtype") {
  for (DType dtype : {DType::kF32, DType::kU8, DType::kI64, DType::kF16}) {
    for (int64_t axis : {0, 1, 2, 3}) {
      CAPTURE(axis);
      OpTest test("Split", 13);
      test.attr("axis", axis).input(random_tensor({6, 12, 9, 15}, 3, 0, 100, dtype));
      test.outputs(3).expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("split_of_the_yolov5_head") {
  OpTest test("Split", 13);
  test.attr("axis", int64_t{4}).input(random_tensor({1, 3, 8, 8, 85}, 4)).constant_i64({2, 2, 81});
  test.outputs(3).expect_kernel_matches_reference(0);
}

TEST_CASE("split_rejects_what_does_not_add_up") {
  OpTest sum("Split", 13);
  sum.input(random_tensor({5}, 1)).constant_i64({2, 2}).outputs(2).expect_problem("sum is the dim 5");
  OpTest count("Split", 13);
  count.input(random_tensor({5}, 1)).constant_i64({2, 3}).outputs(3).expect_problem("3 lengths");
  OpTest negative("Split", 13);
  negative.input(random_tensor({5}, 1)).constant_i64({-1, 6}).outputs(2).expect_problem("lengths");
  OpTest uneven("Split", 13);
  uneven.input(random_tensor({5}, 1)).outputs(2).expect_problem("divisor");
  OpTest outputs("Split", 18);
  outputs.attr("num_outputs", int64_t{3}).input(random_tensor({6}, 1)).outputs(2).expect_problem("num_outputs");
  OpTest nothing_left("Split", 18);
  nothing_left.attr("num_outputs", int64_t{4}).input(random_tensor({5}, 1)).outputs(4).expect_problem("lengths");
  OpTest axis("Split", 13);
  axis.attr("axis", int64_t{1}).input(random_tensor({6}, 1)).outputs(2).expect_problem("axis");
  OpTest run_time("Split", 13);
  run_time.input(random_tensor({4}, 1)).input(make_tensor(DType::kI64, {2}, {2, 2}));
  run_time.outputs(2).expect_problem("run time");
  OpTest none("Split", 13);
  none.input(random_tensor({4}, 1)).outputs(0).expect_problem("at least 1");
}

TEST_CASE("split_check_guards") {
  OpTest test("Split", 13);
  test.attr("axis", int64_t{1}).input(random_tensor({2, 6, 3}, 3)).constant_i64({1, 3, 2});
  test.outputs(3).expect_check_guards();
}

}  // namespace kiln::test
