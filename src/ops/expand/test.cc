#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

OpTest expand(const Tensor& x, std::vector<int64_t> shape) {
  OpTest test("Expand", 13);
  test.input(x).constant_i64(std::move(shape));
  return test;
}

OpTest tile(const Tensor& x, std::vector<int64_t> repeats) {
  OpTest test("Tile", 13);
  test.input(x).constant_i64(std::move(repeats));
  return test;
}

}  // namespace

TEST_CASE("expand_broadcasts_both_ways") {
  const Tensor column = make_tensor(DType::kI32, {3, 1}, {1, 2, 3});
  expand(column, {2}).expect_reference(0, {3, 2}, {1, 1, 2, 2, 3, 3});
  expand(column, {2, 1, 2}).expect_reference(0, {2, 3, 2}, {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
  expand(column, {1, 1}).expect_reference(0, {3, 1}, {1, 2, 3});
  expand(column, {3, 0}).expect_reference(0, {3, 0}, {});
  expand(make_f32_scalar(4), {2, 2}).expect_reference(0, {2, 2}, {4, 4, 4, 4});
}

TEST_CASE("tile_repeats") {
  const Tensor x = make_tensor(DType::kI32, {2, 2}, {1, 2, 3, 4});
  tile(x, {1, 2}).expect_reference(0, {2, 4}, {1, 2, 1, 2, 3, 4, 3, 4});
  tile(x, {2, 1}).expect_reference(0, {4, 2}, {1, 2, 3, 4, 1, 2, 3, 4});
  tile(x, {0, 1}).expect_reference(0, {0, 2}, {});
}

TEST_CASE("repeat_kernel_matches_reference") {
  for (DType dtype : {DType::kF32, DType::kBool, DType::kI64, DType::kF16}) {
    expand(random_tensor({1, 16, 1, 1}, 1, 0, 2, dtype), {2, 16, 9, 7}).expect_kernel_matches_reference(0);
    expand(random_tensor({5, 1, 3}, 1, 0, 2, dtype), {4, 1, 6, 1}).expect_kernel_matches_reference(0);
    expand(random_tensor({}, 1, 0, 2, dtype), {3, 4}).expect_kernel_matches_reference(0);
    tile(random_tensor({2, 3, 4, 5}, 1, 0, 2, dtype), {3, 1, 2, 2}).expect_kernel_matches_reference(0);
    tile(random_tensor({1, 2, 1, 2, 1, 2, 3, 1}, 1, 0, 2, dtype), {2, 2, 2, 2, 2, 2, 2, 2})
        .expect_kernel_matches_reference(0);
    tile(random_tensor({3}, 1, 0, 2, dtype), {70000}).expect_kernel_matches_reference(0);
  }
}

TEST_CASE("expand_and_tile_reject_what_does_not_fit") {
  expand(random_tensor({3, 2}, 1), {3, 4}).expect_problem("broadcasts");
  expand(random_tensor({3, 1}, 1), {3, -1}).expect_problem("broadcasts");
  expand(random_tensor({1, 1}, 1), {65536, 65536}).expect_problem("fewer than 2^31");
  tile(random_tensor({3, 2}, 1), {2}).expect_problem("2 numbers");
  tile(random_tensor({3, 2}, 1), {2, -1}).expect_problem(">= 0");
  tile(random_tensor({3, 2}, 1), {INT64_MAX, 2}).expect_problem("fewer than 2^31");
  OpTest run_time("Tile", 13);
  run_time.input(random_tensor({3}, 1)).input(make_tensor(DType::kI64, {1}, {2})).expect_problem("repeats");
}

TEST_CASE("repeat_check_guards") {
  tile(random_tensor({2, 3, 2}, 1), {1, 2, 3}).expect_check_guards();
  expand(random_tensor({3, 1}, 1), {2, 3, 4}).expect_check_guards();
}

}  // namespace kiln::test
