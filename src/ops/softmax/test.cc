#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"
#include "ops/softmax/softmax.h"

using namespace kiln;
using namespace kiln::test;

TEST_CASE("softmax_kernels_match_reference") {
  uint64_t seed = 1;
  const Shape shapes[] = {{7}, {1, 1000}, {2, 3, 5}, {1, 16, 4, 37}, {4, 2, 6, 3}, {3, 0, 2}, {2, 3, 1, 300}};
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const Shape& shape : shapes) {
      for (int opset : {11, 13}) {
        for (int axis = -shape.rank; axis < shape.rank; ++axis) {
          INFO(op, " ", print_shape(shape), " axis ", axis, " opset ", opset);
          OpTest(op, opset)
              .attr("axis", int64_t{axis})
              .input(random_tensor(shape, ++seed, -8, 8))
              .expect_kernel_matches_reference(2e-6);
        }
      }
    }
    OpTest(op, 13).input(random_tensor({3, 9}, 5, -4, 4, DType::kF16)).expect_kernel_matches_reference(0);
    OpTest(op, 13).input(random_tensor({3, 9}, 5, -4, 4, DType::kF64)).expect_kernel_matches_reference(0);
  }
}

TEST_CASE("softmax_large_numbers") {
  const Tensor x = make_tensor(DType::kF32, {2, 4}, {0, 1, 2, 3, 10000, 10001, 10002, 10003});
  const std::vector<double> row = {0.032058604, 0.08714432, 0.23688284, 0.6439143};
  std::vector<double> both = row;
  both.insert(both.end(), row.begin(), row.end());
  OpTest("Softmax", 13).input(x).expect_reference(0, {2, 4}, both, 1e-6);
  OpTest("Softmax", 13).input(x).expect_kernel_matches_reference(1e-6);
  OpTest("LogSoftmax", 13).attr("axis", int64_t{0}).input(x).expect_kernel_matches_reference(1e-6);
}

TEST_CASE("softmax_before_opset_13_takes_all_axes_behind") {
  const Tensor x = make_tensor(DType::kF32, {1, 2, 2}, {0, 0, 0, 0});
  OpTest("Softmax", 11).input(x).expect_reference(0, {1, 2, 2}, {.25, .25, .25, .25});
  OpTest("Softmax", 13).input(x).expect_reference(0, {1, 2, 2}, {.5, .5, .5, .5});
  OpTest("Softmax", 13).attr("axis", int64_t{3}).input(x).expect_problem("axis=3");
}

TEST_CASE("softmax_check_refuses_sizes_that_do_not_match") {
  const KernelDef* kernel = builtin_kernels().find("softmax_f32");
  REQUIRE(kernel != nullptr);
  const Tensor a(DType::kF32, {2, 3});
  TensorRef in = make_ref(a);
  TensorRef out = make_ref(a);
  for (const ops::softmax::SoftmaxParams& p : {ops::softmax::SoftmaxParams{2, 3, 1, 0}, {1, 2, 3, 1}}) {
    CHECK(kernel->check({&p, sizeof(p), &in, 1, &out, 1, nullptr, 0, &serial_parallel()}).ok());
  }
  for (const ops::softmax::SoftmaxParams& p :
       {ops::softmax::SoftmaxParams{2, 3, 2, 0}, {-2, -3, 1, 0}, {INT32_MAX, INT32_MAX, INT32_MAX, 0}, {0, 3, 2, 0}}) {
    CHECK_FALSE(kernel->check({&p, sizeof(p), &in, 1, &out, 1, nullptr, 0, &serial_parallel()}).ok());
  }
}

TEST_CASE("softmax_check_holds_against_changed_steps") {
  OpTest("Softmax", 13).input(random_tensor({3, 7}, 1)).expect_check_guards();
  OpTest("LogSoftmax", 13).attr("axis", int64_t{1}).input(random_tensor({2, 3, 6}, 1)).expect_check_guards();
  OpTest("Softmax", 13).input(random_tensor({3, 7}, 1, -1, 1, DType::kF16)).expect_check_guards();
}
