#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

struct ReshapeCase {
  const char* name;
  Shape x;
  std::vector<int64_t> shape;
  int64_t allowzero;
  Shape expected;
};

const ReshapeCase kReshapes[] = {
    {"plain", {2, 6}, {3, 4}, 0, {3, 4}},
    {"0 copies, -1 is the rest", {2, 3, 4}, {0, -1}, 0, {2, 12}},
    {"-1 first", {2, 3, 4}, {-1, 6}, 0, {4, 6}},
    {"0 behind -1", {2, 3, 4}, {-1, 3, 0}, 0, {2, 3, 4}},
    {"to a scalar", {1, 1}, {}, 0, {}},
    {"from a scalar", {}, {1, -1}, 0, {1, 1}},
    {"YOLOv5 head", {1, 18, 4, 5}, {1, 3, 6, 4, 5}, 0, {1, 3, 6, 4, 5}},
    {"empty with allowzero", {0, 3, 4}, {3, 4, 0}, 1, {3, 4, 0}},
    {"empty, 0 copies", {0, 3}, {0, 3}, 0, {0, 3}},
    {"empty with -1", {0, 3}, {3, -1}, 0, {3, 0}},
};

OpTest reshape(const Shape& x, std::vector<int64_t> shape, int64_t allowzero = 0) {
  OpTest test("Reshape");
  if (allowzero) test.attr("allowzero", allowzero);
  test.input(random_tensor(x, 3)).constant_i64(std::move(shape));
  return test;
}

}  // namespace

TEST_CASE("reshape_keeps_the_elements") {
  for (const ReshapeCase& c : kReshapes) {
    CAPTURE(c.name);
    const Tensor x = random_tensor(c.x, 3);
    std::vector<double> values;
    for (int64_t i = 0; i < x.num_elements(); ++i) values.push_back(x.as<float>()[i]);
    reshape(c.x, c.shape, c.allowzero).expect_reference(0, c.expected, values);
    reshape(c.x, c.shape, c.allowzero).expect_kernel_matches_reference(0);
  }
}

TEST_CASE("reshape_rejects_shapes_that_do_not_fit") {
  reshape({2, 3}, {4}).expect_problem("as many elements");
  reshape({2, 3}, {-1, 4}).expect_problem("as many elements");
  reshape({2, 3}, {-1, -1}).expect_problem("at most one -1");
  reshape({2, 3}, {-2, 3}).expect_problem(">= -1");
  reshape({6}, {2, 3, 0}).expect_problem("no 0 beyond");
  reshape({0, 3}, {0, -1}, 1).expect_problem("as many elements");
  reshape({1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}).expect_problem("up to 8 dims");
  OpTest run_time("Reshape");
  run_time.input(random_tensor({2, 3}, 1)).input(make_tensor(DType::kI64, {1}, {6})).expect_problem("shape");
}

TEST_CASE("flatten_axes") {
  const struct {
    int64_t axis;
    Shape expected;
  } cases[] = {{0, {1, 24}}, {1, {2, 12}}, {2, {6, 4}}, {3, {24, 1}}, {-1, {6, 4}}, {-3, {1, 24}}};
  for (const auto& c : cases) {
    CAPTURE(c.axis);
    const Tensor x = random_tensor({2, 3, 4}, 5);
    std::vector<double> values;
    for (int64_t i = 0; i < 24; ++i) values.push_back(x.as<float>()[i]);
    OpTest test("Flatten");
    test.attr("axis", c.axis).input(x).expect_reference(0, c.expected, values);
    test.expect_kernel_matches_reference(0);
  }
  OpTest bad("Flatten");
  bad.attr("axis", int64_t{4}).input(random_tensor({2, 3, 4}, 5)).expect_problem("axis");
}

TEST_CASE("squeeze_and_unsqueeze_take_axes_as_attribute_and_as_input") {
  const Tensor x = make_tensor(DType::kF32, {1, 2, 1, 1}, {7, 8});
  OpTest all("Squeeze");
  all.input(x).expect_reference(0, {2}, {7, 8});
  OpTest absent("Squeeze");
  absent.input(x).absent().expect_reference(0, {2}, {7, 8});
  OpTest attribute("Squeeze", 11);
  attribute.ints("axes", {0, -1}).input(x).expect_reference(0, {2, 1}, {7, 8});
  attribute.expect_kernel_matches_reference(0);
  OpTest input("Squeeze", 13);
  input.input(x).constant_i64({-2}).expect_reference(0, {1, 2, 1}, {7, 8});
  OpTest longer("Squeeze", 13);
  longer.input(x).constant_i64({1}).expect_problem("dims of length 1");

  const Tensor v = make_tensor(DType::kF32, {2, 2}, {1, 2, 3, 4});
  OpTest unsqueeze("Unsqueeze", 11);
  unsqueeze.ints("axes", {3, 0}).input(v).expect_reference(0, {1, 2, 2, 1}, {1, 2, 3, 4});
  OpTest by_input("Unsqueeze", 13);
  by_input.input(v).constant_i64({-1, 1}).expect_reference(0, {2, 1, 2, 1}, {1, 2, 3, 4});
  by_input.expect_kernel_matches_reference(0);
  OpTest scalar("Unsqueeze", 13);
  scalar.input(make_f32_scalar(5)).constant_i64({0}).expect_reference(0, {1}, {5});
  OpTest twice("Unsqueeze", 13);
  twice.input(v).constant_i64({0, 0}).expect_problem("different axes");
  OpTest outside("Unsqueeze", 13);
  outside.input(v).constant_i64({3}).expect_problem("different axes");
  OpTest none("Unsqueeze", 11);
  none.input(v).expect_problem("axes");
  OpTest many("Unsqueeze", 13);
  many.input(v).constant_i64({0, 1, 2, 3, 4, 5, 6}).expect_problem("up to 8 dims");
}

TEST_CASE("copy_large_and_of_any_dtype") {
  for (DType dtype : {DType::kF32, DType::kU8, DType::kI64, DType::kF16}) {
    OpTest test("Flatten");
    test.input(random_tensor({3, 300, 301}, 9, 0, 100, dtype)).expect_kernel_matches_reference(0);
  }
}

TEST_CASE("copy_check_guards") { reshape({2, 3, 4}, {4, -1}).expect_check_guards(); }

}  // namespace kiln::test
