#include <doctest/doctest.h>

#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

TEST_CASE("where_every_dtype_and_broadcast") {
  const Shape shapes[][3] = {
      {{2, 3}, {2, 3}, {2, 3}},        {{2, 1}, {3}, {}},     {{}, {4, 5}, {4, 5}},
      {{1, 40, 1}, {3, 1, 7}, {1, 1}}, {{0, 2}, {1, 2}, {2}}, {{300, 70}, {70}, {300, 1}},
  };
  uint64_t seed = 1;
  for (int dtype = 1; dtype < kNumDTypes; ++dtype) {
    for (const auto& s : shapes) {
      INFO(dtype_name(static_cast<DType>(dtype)), " ", print_shape(s[0]));
      Tensor condition(DType::kBool, s[0]);
      const Tensor bits = random_tensor(s[0], seed += 3, 0, 1.99, DType::kU8);
      for (int64_t i = 0; i < bits.num_elements(); ++i) condition.as<uint8_t>()[i] = bits.as<uint8_t>()[i];
      OpTest("Where", 16)
          .input(condition)
          .input(random_tensor(s[1], seed + 1, 0, 100, static_cast<DType>(dtype)))
          .input(random_tensor(s[2], seed + 2, 0, 100, static_cast<DType>(dtype)))
          .expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("where_known_values_and_refusals") {
  const Tensor condition = make_tensor(DType::kBool, {2, 2}, {1, 0, 1, 1});
  const Tensor a = make_tensor(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const Tensor b = make_tensor(DType::kF32, {2}, {9, 8});
  OpTest("Where", 9).input(condition).input(a).input(b).expect_reference(0, {2, 2}, {1, 8, 3, 4}, 0);
  OpTest("Where", 9).input(a).input(a).input(b).expect_problem("bool");
  OpTest("Where", 9).input(condition).input(a).input(make_tensor(DType::kI32, {1}, {1})).expect_problem("i32");
  OpTest("Where", 9).input(condition).input(a).input(random_tensor({3}, 1)).expect_problem("broadcasts");
  OpTest("Where", 8).input(condition).input(a).input(b).expect_problem("opset");
}

TEST_CASE("where_check_holds_against_changed_steps") {
  OpTest test("Where", 16);
  test.input(Tensor(DType::kBool, {2, 1})).input(random_tensor({2, 5}, 1)).input(random_tensor({5}, 2));
  test.expect_check_guards();
}
