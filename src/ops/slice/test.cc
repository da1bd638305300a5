#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

struct Case {
  const char* name;
  Shape x;
  std::vector<int64_t> starts, ends, axes, steps;  // axes, steps empty: absent
  Shape expected;
};

const Case kCases[] = {
    {"plain", {20, 10, 5}, {0, 0}, {3, 10}, {0, 1}, {1, 1}, {3, 10, 5}},
    {"default axes and steps", {20, 10, 5}, {0, 0, 3}, {20, 10, 4}, {}, {}, {20, 10, 1}},
    {"Focus rows", {1, 3, 12, 14}, {0}, {INT64_MAX}, {2}, {2}, {1, 3, 6, 14}},
    {"Focus odd columns", {1, 3, 12, 15}, {1}, {INT64_MAX}, {3}, {2}, {1, 3, 12, 7}},
    {"down-sampling shortcut", {1, 4, 9, 9}, {0, 0}, {2147483647, 2147483647}, {2, 3}, {2, 2}, {1, 4, 5, 5}},
    {"reversed by -INT64_MAX", {2, 5}, {-1}, {-INT64_MAX}, {1}, {-1}, {2, 5}},
    {"reversed by INT64_MIN", {2, 5}, {-1}, {INT64_MIN}, {-1}, {-2}, {2, 3}},
    {"step INT64_MIN", {2, 5}, {4}, {INT64_MIN}, {1}, {INT64_MIN}, {2, 1}},
    {"step INT64_MAX", {2, 5}, {0}, {INT64_MAX}, {1}, {INT64_MAX}, {2, 1}},
    {"start beyond, backwards", {2, 5}, {100}, {1}, {1}, {-1}, {2, 3}},
    {"negative ends", {20, 10, 5}, {0}, {-1}, {1}, {1}, {20, 9, 5}},
    {"start out of bounds", {20, 10, 5}, {1000}, {1000}, {1}, {1}, {20, 0, 5}},
    {"end before start", {4}, {3}, {1}, {0}, {1}, {0}},
    {"empty input", {0, 3}, {0}, {2}, {0}, {1}, {0, 3}},
    {"empty input backwards", {0, 3}, {-1}, {INT64_MIN}, {0}, {-1}, {0, 3}},
    {"channels of NHWC", {1, 6, 7, 12}, {4}, {9}, {-1}, {1}, {1, 6, 7, 5}},
    {"all axes backwards",
     {2, 3, 4},
     {-1, -1, -1},
     {INT64_MIN, INT64_MIN, INT64_MIN},
     {0, 1, 2},
     {-1, -1, -1},
     {2, 3, 4}},
};

OpTest make_test(const Case& c, DType dtype = DType::kF32) {
  OpTest test("Slice", 13);
  test.input(random_tensor(c.x, 7, 0, 100, dtype)).constant_i64(c.starts).constant_i64(c.ends);
  if (!c.axes.empty())
    test.constant_i64(c.axes);
  else if (!c.steps.empty())
    test.absent();
  if (!c.steps.empty()) test.constant_i64(c.steps);
  return test;
}

}  // namespace

TEST_CASE("slice_shapes_and_kernel") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    CHECK(make_test(c).output_shape() == c.expected);
    make_test(c).expect_kernel_matches_reference(0);
    for (DType dtype : {DType::kU8, DType::kI64, DType::kF16}) make_test(c, dtype).expect_kernel_matches_reference(0);
  }
}

TEST_CASE("slice_reference") {
  const Tensor x = make_tensor(DType::kI32, {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  OpTest forward("Slice", 10);
  forward.input(x).constant_i64({1}).constant_i64({INT64_MAX}).constant_i64({1}).constant_i64({2});
  forward.expect_reference(0, {2, 2}, {1, 3, 6, 8});
  OpTest backward("Slice", 10);
  backward.input(x).constant_i64({-1}).constant_i64({-INT64_MAX}).constant_i64({-1}).constant_i64({-1});
  backward.expect_reference(0, {2, 5}, {4, 3, 2, 1, 0, 9, 8, 7, 6, 5});
  OpTest by_three("Slice", 10);
  by_three.input(x).constant_i64({100}).constant_i64({0}).constant_i64({1}).constant_i64({-3});
  by_three.expect_reference(0, {2, 2}, {4, 1, 9, 6});
  OpTest i32("Slice", 11);
  i32.input(x).constant(make_tensor(DType::kI32, {1}, {1})).constant(make_tensor(DType::kI32, {1}, {2147483647}));
  i32.expect_reference(0, {1, 5}, {5, 6, 7, 8, 9});
}

TEST_CASE("slice_before_opset_10_has_attributes") {
  OpTest test("Slice", 9);
  test.ints("starts", {1, -4}).ints("ends", {2, -1}).ints("axes", {0, 1});
  test.input(make_tensor(DType::kI32, {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  test.expect_reference(0, {1, 3}, {6, 7, 8});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("slice_rejects_what_contradicts_itself") {
  const auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> axes,
                        std::vector<int64_t> steps) {
    OpTest test("Slice", 13);
    test.input(random_tensor({4, 5}, 1)).constant_i64(starts).constant_i64(ends).constant_i64(axes).constant_i64(steps);
    return test;
  };
  slice({0}, {1, 2}, {0}, {1}).expect_problem("as many as");
  slice({0}, {1}, {2}, {1}).expect_problem("different axes");
  slice({0, 0}, {1, 1}, {0, -2}, {1, 1}).expect_problem("different axes");
  slice({0}, {1}, {0}, {0}).expect_problem("no 0");
  OpTest run_time("Slice", 13);
  run_time.input(random_tensor({4, 5}, 1)).input(make_tensor(DType::kI64, {1}, {0})).constant_i64({1});
  run_time.expect_problem("starts");
}

TEST_CASE("slice_check_guards") {
  make_test(kCases[4]).expect_check_guards();
  make_test(kCases[16]).expect_check_guards();
}

}  // namespace kiln::test
