#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

struct Case {
  const char* name;
  Shape x;
  std::vector<int64_t> perm;  // empty: default
};

const Case kCases[] = {
    {"NCHW to NHWC", {2, 17, 9, 11}, {0, 2, 3, 1}},
    {"NHWC to NCHW", {2, 9, 11, 17}, {0, 3, 1, 2}},
    {"image to NHWC", {1, 3, 64, 65}, {0, 2, 3, 1}},
    {"image to NCHW", {1, 33, 35, 3}, {0, 3, 1, 2}},
    {"one and two channels", {2, 2, 5, 7}, {0, 2, 3, 1}},
    {"larger than a cache block", {1, 70, 50, 40}, {0, 2, 3, 1}},
    {"large enough for tiles", {1, 64, 80, 80}, {0, 2, 3, 1}},
    {"matrix", {37, 53}, {1, 0}},
    {"default reverses", {2, 3, 4, 5}, {}},
    {"attention heads", {1, 10, 4, 16}, {0, 2, 1, 3}},
    {"YOLOv5 head", {1, 3, 6, 5, 4}, {0, 1, 3, 4, 2}},
    {"v8 output", {1, 84, 100}, {0, 2, 1}},
    {"identity", {2, 3, 4}, {0, 1, 2}},
    {"rank 8", {2, 1, 3, 2, 1, 2, 3, 2}, {7, 2, 0, 5, 1, 3, 6, 4}},
    {"dims of 1", {1, 1, 5, 1}, {3, 2, 0, 1}},
    {"rank 1", {5}, {0}},
    {"no elements", {2, 0, 3}, {2, 1, 0}},
};

OpTest make_test(const Case& c, DType dtype) {
  OpTest test("Transpose");
  if (!c.perm.empty()) test.ints("perm", c.perm);
  test.input(random_tensor(c.x, 11, 0, 100, dtype));
  return test;
}

}  // namespace

TEST_CASE("transpose_kernel_matches_reference") {
  for (const Case& c : kCases) {
    for (DType dtype : {DType::kF32, DType::kU8, DType::kI16, DType::kI64}) {
      CAPTURE(c.name);
      CAPTURE(dtype_name(dtype));
      make_test(c, dtype).expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("transpose_of_a_scalar") {
  OpTest test("Transpose");
  test.input(make_f32_scalar(3)).expect_reference(0, Shape{}, {3});
}

TEST_CASE("transpose_reference_moves_axes") {
  OpTest test("Transpose");
  test.ints("perm", {1, 2, 0}).input(make_tensor(DType::kF32, {2, 1, 3}, {0, 1, 2, 3, 4, 5}));
  test.expect_reference(0, {1, 3, 2}, {0, 3, 1, 4, 2, 5});
}

TEST_CASE("transpose_rejects_what_is_no_permutation") {
  for (std::vector<int64_t> perm : {std::vector<int64_t>{0, 0}, {0}, {0, 2}, {-1, 0}, {0, 1, 2}}) {
    OpTest test("Transpose");
    test.ints("perm", perm).input(random_tensor({2, 3}, 1)).expect_problem("permutation");
  }
}

TEST_CASE("transpose_check_guards") { make_test({"", {2, 3, 4, 5}, {0, 2, 3, 1}}, DType::kF32).expect_check_guards(); }

}  // namespace kiln::test
