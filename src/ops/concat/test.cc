#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

struct Case {
  const char* name;
  std::vector<Shape> inputs;
  int64_t axis;
};

const Case kCases[] = {
    {"NHWC channels", {{1, 6, 7, 16}, {1, 6, 7, 5}, {1, 6, 7, 3}}, 3},
    {"NCHW channels", {{2, 3, 5, 6}, {2, 4, 5, 6}}, 1},
    {"negative axis", {{2, 3}, {2, 2}, {2, 1}}, -1},
    {"rows", {{2, 3}, {4, 3}}, 0},
    {"one input", {{2, 3}}, 1},
    {"with an empty one", {{2, 3}, {2, 0}, {2, 2}}, 1},
    {"all empty", {{2, 0}, {2, 0}}, 1},
    {"1-D", {{3}, {1}, {2}}, 0},
    {"detection heads", {{1, 85, 2704}, {1, 85, 676}, {1, 85, 169}}, 2},
};

OpTest make_test(const Case& c, DType dtype = DType::kF32) {
  OpTest test("Concat");
  test.attr("axis", c.axis);
  uint64_t seed = 1;
  for (const Shape& shape : c.inputs) test.input(random_tensor(shape, seed++, 0, 100, dtype));
  return test;
}

}  // namespace

TEST_CASE("concat_kernel_matches_reference") {
  for (const Case& c : kCases) {
    for (DType dtype : {DType::kF32, DType::kI8, DType::kI64, DType::kF16}) {
      CAPTURE(c.name);
      make_test(c, dtype).expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("concat_reference") {
  OpTest test("Concat");
  test.attr("axis", int64_t{1});
  test.input(make_tensor(DType::kI32, {2, 1}, {1, 2})).input(make_tensor(DType::kI32, {2, 2}, {3, 4, 5, 6}));
  test.expect_reference(0, {2, 3}, {1, 3, 4, 2, 5, 6});
}

TEST_CASE("concat_rejects_what_does_not_fit") {
  make_test({"", {{2, 3}, {3, 3}}, 1}).expect_problem("shape of input 1");
  make_test({"", {{2, 3}, {2, 3, 1}}, 1}).expect_problem("shape of input 1");
  make_test({"", {{2, 3}, {2, 3}}, 2}).expect_problem("axis");
  OpTest dtypes("Concat");
  dtypes.attr("axis", int64_t{0}).input(random_tensor({2}, 1)).input(random_tensor({2}, 1, 0, 9, DType::kI32));
  dtypes.expect_problem("dtype of input 1");
  OpTest no_axis("Concat");
  no_axis.input(random_tensor({2}, 1)).expect_problem("axis");
}

TEST_CASE("concat_check_guards") { make_test(kCases[0]).expect_check_guards(); }

}  // namespace kiln::test
