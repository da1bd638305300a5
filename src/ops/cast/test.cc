#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr int64_t kOnnx[kNumDTypes] = {0, 1, 10, 16, 11, 3, 2, 5, 4, 6, 12, 7, 13, 9};

}  // namespace

TEST_CASE("cast_every_pair_of_dtypes") {
  for (int from = 1; from < kNumDTypes; ++from) {
    for (int to = 1; to < kNumDTypes; ++to) {
      INFO(dtype_name(static_cast<DType>(from)), " to ", dtype_name(static_cast<DType>(to)));
      OpTest test("Cast", 13);
      test.attr("to", kOnnx[to]).input(make_tensor(static_cast<DType>(from), {2, 3}, {0, 1, 3, 7, 100, 1}));
      const bool any_bool = from == 13 || to == 13;
      test.expect_reference(0, {2, 3},
                            any_bool ? std::vector<double>{0, 1, 1, 1, 1, 1} : std::vector<double>{0, 1, 3, 7, 100, 1});
      test.expect_kernel_matches_reference(0);
      OpTest like("CastLike", 15);
      like.input(make_tensor(static_cast<DType>(from), {2}, {0, 1})).input(Tensor(static_cast<DType>(to), {1}));
      like.expect_reference(0, {2}, {0, 1});
      like.expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("cast_rounds_truncates_and_wraps") {
  const Tensor x = make_tensor(DType::kF32, {6}, {-1.9, 1.9, 300, -129, NAN, 0.2});
  OpTest("Cast", 13).attr("to", int64_t{6}).input(x).expect_reference(0, {6}, {-1, 1, 300, -129, 0, 0});
  OpTest("Cast", 13).attr("to", int64_t{3}).input(x).expect_reference(0, {6}, {-1, 1, 44, 127, 0, 0});
  OpTest("Cast", 13).attr("to", int64_t{9}).input(x).expect_reference(0, {6}, {1, 1, 1, 1, 1, 1});
  const Tensor y = make_tensor(DType::kF32, {3}, {65520, 1.00048828125, 1e-8});
  OpTest("Cast", 13).attr("to", int64_t{10}).input(y).expect_reference(0, {3}, {INFINITY, 1, 0});
}

TEST_CASE("cast_large_tensors_and_views") {
  OpTest("Cast", 13)
      .attr("to", int64_t{1})
      .input(random_tensor({3, 200, 70}, 1, 0, 255, DType::kU8))
      .expect_kernel_matches_reference(0);
  OpTest("Cast", 13)
      .attr("to", int64_t{7})
      .input(random_tensor({3, 200, 70}, 1, -9e8, 9e8, DType::kI32))
      .expect_kernel_matches_reference(0);
}

TEST_CASE("cast_refuses_strings_and_small_floats") {
  OpTest("Cast", 13).attr("to", int64_t{8}).input(random_tensor({1}, 1)).expect_problem("8 (STRING)");
  OpTest("Cast", 19).attr("to", int64_t{17}).input(random_tensor({1}, 1)).expect_problem("to=17");
  OpTest("Cast", 13).input(random_tensor({1}, 1)).expect_problem("to=absent");
}

TEST_CASE("cast_check_holds_against_changed_steps") {
  OpTest("Cast", 13).attr("to", int64_t{1}).input(random_tensor({3, 5}, 1, 0, 255, DType::kU8)).expect_check_guards();
  OpTest("Cast", 13).attr("to", int64_t{10}).input(random_tensor({3, 5}, 1)).expect_check_guards();
}
