#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

OpTest make_test(const char* op, const Tensor& x, int64_t block, const char* mode = nullptr, bool nhwc = false) {
  OpTest test(op, 13);
  test.attr("blocksize", block).input(x);
  if (mode) test.attr("mode", std::string(mode));
  if (nhwc) test.attr("layout", std::string("NHWC"));
  return test;
}

}  // namespace

TEST_CASE("depth_to_space_modes") {
  const Tensor x = make_tensor(DType::kF32, {1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  make_test("DepthToSpace", x, 2).expect_reference(0, {1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7});
  make_test("DepthToSpace", x, 2, "CRD").expect_reference(0, {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("space_to_depth") {
  const Tensor x = make_tensor(DType::kF32, {1, 1, 4, 6},
                               {0, 6, 1, 7, 2, 8, 12, 18, 13, 19, 14, 20, 3, 9, 4, 10, 5, 11, 15, 21, 16, 22, 17, 23});
  make_test("SpaceToDepth", x, 2).expect_reference(0, {1, 4, 2, 3}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                                     12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
}

TEST_CASE("depth_space_kernel_matches_reference_in_both_layouts") {
  for (DType dtype : {DType::kF32, DType::kU8, DType::kI64}) {
    for (bool nhwc : {false, true}) {
      const Shape deep = nhwc ? Shape{2, 5, 7, 45} : Shape{2, 45, 5, 7};
      const Shape wide = nhwc ? Shape{2, 6, 9, 5} : Shape{2, 5, 6, 9};
      make_test("DepthToSpace", random_tensor(deep, 1, 0, 100, dtype), 3, "DCR", nhwc)
          .expect_kernel_matches_reference(0);
      make_test("DepthToSpace", random_tensor(deep, 1, 0, 100, dtype), 3, "CRD", nhwc)
          .expect_kernel_matches_reference(0);
      make_test("SpaceToDepth", random_tensor(wide, 1, 0, 100, dtype), 3, nullptr, nhwc)
          .expect_kernel_matches_reference(0);
    }
  }
  make_test("DepthToSpace", Tensor(DType::kF32, {1, 0, 2, 2}), 2).expect_kernel_matches_reference(0);
}

TEST_CASE("depth_space_rejects_what_does_not_divide") {
  make_test("DepthToSpace", random_tensor({1, 6, 2, 2}, 1), 2).expect_problem("blocksize");
  make_test("SpaceToDepth", random_tensor({1, 6, 3, 2}, 1), 2).expect_problem("blocksize");
  make_test("DepthToSpace", random_tensor({1, 4, 2, 2}, 1), 0).expect_problem("blocksize");
  make_test("DepthToSpace", random_tensor({1, 4, 2, 2}, 1), 2, "XYZ").expect_problem("mode");
  make_test("DepthToSpace", random_tensor({4, 2, 2}, 1), 2).expect_problem("rank");
}

TEST_CASE("depth_space_check_guards") {
  make_test("DepthToSpace", random_tensor({1, 8, 2, 3}, 1), 2, "CRD").expect_check_guards();
  make_test("SpaceToDepth", random_tensor({1, 4, 6, 3}, 1), 2, nullptr, true).expect_check_guards();
}

}  // namespace kiln::test
