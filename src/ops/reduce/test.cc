#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"
#include "ops/reduce/reduce.h"

using namespace kiln;
using namespace kiln::test;

namespace {

const char* const kOps[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                            "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};

}  // namespace

TEST_CASE("reduce_kernels_match_reference_over_all_axes") {
  uint64_t seed = 1;
  const Shape shapes[] = {{7}, {2, 3, 4, 5}, {1, 7, 6, 300}, {3, 1, 70}, {2, 1000}, {40, 33, 9}};
  for (const char* op : kOps) {
    for (const Shape& shape : shapes) {
      for (int mask = 0; mask < 1 << shape.rank; ++mask) {
        std::vector<int64_t> axes;
        for (int i = 0; i < shape.rank; ++i) {
          if (mask >> i & 1) axes.push_back(i % 2 ? i : i - shape.rank);
        }
        INFO(op, " ", print_shape(shape), " mask ", mask);
        const double hi = std::string(op) == "ReduceProd" ? 1.01 : 2;
        OpTest by_attribute(op, 11);
        by_attribute.ints("axes", axes).attr("keepdims", int64_t{mask & 1});
        by_attribute.input(random_tensor(shape, ++seed, 0.9, hi)).expect_kernel_matches_reference(2e-6);
      }
    }
    OpTest by_input(op, 18);
    by_input.input(random_tensor({2, 3, 4}, ++seed, 1, 2)).constant_i64({-2}).expect_kernel_matches_reference(1e-6);
    for (DType dtype : {DType::kF16, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
      OpTest(op, 11).input(random_tensor({2, 3, 4}, ++seed, 1, 3, dtype)).expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("reduce_known_values") {
  const Tensor x = make_tensor(DType::kF32, {3, 2, 2}, {5, 1, 20, 2, 30, 1, 40, 2, 55, 1, 60, 2});
  OpTest("ReduceMean", 13)
      .ints("axes", {1})
      .attr("keepdims", int64_t{0})
      .input(x)
      .expect_reference(0, {3, 2}, {12.5, 1.5, 35, 1.5, 57.5, 1.5});
  OpTest("ReduceMax", 13).ints("axes", {-2}).input(x).expect_reference(0, {3, 1, 2}, {20, 2, 40, 2, 60, 2});
  OpTest("ReduceSum", 13).input(x).constant_i64({0, 1, 2}).expect_reference(0, {1, 1, 1}, {219});
  OpTest("ReduceSum", 13).input(x).attr("keepdims", int64_t{0}).expect_reference(0, {}, {219});
  OpTest("ReduceL2", 13)
      .ints("axes", {2})
      .input(make_tensor(DType::kF32, {1, 1, 2}, {3, 4}))
      .expect_reference(0, {1, 1, 1}, {5});
  OpTest("ReduceLogSumExp", 13)
      .input(make_tensor(DType::kF32, {2}, {1000, 1000}))
      .expect_reference(0, {1}, {1000 + std::log(2)}, 1e-6);
  OpTest("ReduceProd", 13).input(make_tensor(DType::kI32, {3}, {-2, 3, 7})).expect_reference(0, {1}, {-42});
  OpTest("ReduceMean", 13).input(make_tensor(DType::kI32, {2}, {3, 4})).expect_reference(0, {1}, {3});
  OpTest("ReduceMax", 13)
      .input(make_tensor(DType::kU64, {2}, {18446744073709549568.0, 4}))
      .expect_reference(0, {1}, {18446744073709549568.0});
  OpTest("ReduceMax", 20).input(make_tensor(DType::kBool, {2}, {0, 1})).expect_reference(0, {1}, {1});
}

TEST_CASE("reduce_nothing") {
  const Tensor x = random_tensor({2, 3}, 1);
  OpTest noop("ReduceSumSquare", 18);
  noop.attr("noop_with_empty_axes", int64_t{1}).input(make_tensor(DType::kF32, {2}, {-3, 2}));
  noop.expect_reference(0, {2}, {-3, 2});
  noop.expect_kernel_matches_reference(0);
  OpTest("ReduceSum", 13)
      .attr("noop_with_empty_axes", int64_t{1})
      .input(x)
      .constant_i64({})
      .expect_kernel_matches_reference(0);
  for (const char* op : {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}) {
    OpTest(op, 11).ints("axes", {1}).input(Tensor(DType::kF32, {2, 0, 4})).expect_kernel_matches_reference();
    OpTest(op, 11).ints("axes", {1}).input(Tensor(DType::kI8, {2, 0, 4})).expect_kernel_matches_reference();
  }
  OpTest("ReduceMin", 11).ints("axes", {0}).input(Tensor(DType::kI8, {0, 1})).expect_reference(0, {1, 1}, {127});
}

TEST_CASE("reduce_long_sums_stay_accurate") {
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{1}, std::vector<int64_t>{0}}) {
    OpTest test("ReduceSum", 11);
    test.ints("axes", axes);
    test.input(random_tensor(axes[0] == 1 ? Shape{2, 100000} : Shape{100000, 2}, 3, 1, 2));
    test.expect_kernel_matches_reference(1e-6);
  }
}

TEST_CASE("reduce_refusals") {
  const Tensor x = random_tensor({2, 3}, 1);
  OpTest("ReduceMean", 13).ints("axes", {2}).input(x).expect_problem("axes=2");
  const int64_t axis[] = {0};
  OpTest("ReduceMean", 18).input(x).input(make_i64_vector(axis, 1)).expect_problem("axes=computed at run time");
  OpTest("ReduceMean", 13).input(x).constant_i64({0}).expect_problem("number of inputs=2");
}

TEST_CASE("arg_max_and_arg_min") {
  uint64_t seed = 50;
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (int64_t last : {0, 1}) {
      for (const Shape& shape : {Shape{9}, Shape{2, 3, 4}, Shape{1, 21, 31, 17}, Shape{5, 7, 3}, Shape{2, 6, 515}}) {
        for (int axis = 0; axis < shape.rank; ++axis) {
          // Few values, so that there are ties.
          Tensor x = random_tensor(shape, ++seed, 0, 4, DType::kI32);
          Tensor f(DType::kF32, shape);
          for (int64_t i = 0; i < x.num_elements(); ++i) f.as<float>()[i] = static_cast<float>(x.as<int32_t>()[i]);
          INFO(op, " ", print_shape(shape), " axis ", axis, " last ", last);
          OpTest(op, 13)
              .attr("axis", int64_t{axis})
              .attr("select_last_index", last)
              .input(f)
              .expect_kernel_matches_reference(0);
          OpTest(op, 13)
              .attr("axis", int64_t{axis - shape.rank})
              .attr("select_last_index", last)
              .input(x)
              .attr("keepdims", int64_t{0})
              .expect_kernel_matches_reference(0);
        }
      }
    }
  }
  const Tensor x = make_tensor(DType::kF32, {2, 2}, {2, 2, 3, 10});
  OpTest("ArgMax", 13).attr("axis", int64_t{1}).input(x).expect_reference(0, {2, 1}, {0, 1});
  OpTest("ArgMax", 13)
      .attr("axis", int64_t{1})
      .attr("select_last_index", int64_t{1})
      .input(x)
      .expect_reference(0, {2, 1}, {1, 1});
  OpTest("ArgMin", 11).input(x).attr("keepdims", int64_t{0}).expect_reference(0, {2}, {0, 0});
  OpTest("ArgMax", 13).input(Tensor(DType::kF32, {0, 2})).expect_problem("not empty");
}

TEST_CASE("reduce_checks_hold_against_changed_steps") {
  OpTest("ReduceMean", 11).ints("axes", {1, 2}).input(random_tensor({2, 3, 4, 5}, 1)).expect_check_guards();
  OpTest("ReduceMax", 11).ints("axes", {-1}).input(random_tensor({6, 9}, 1)).expect_check_guards();
  OpTest("ReduceLogSumExp", 11).ints("axes", {0, 2}).input(random_tensor({2, 3, 4}, 1)).expect_check_guards();
  OpTest("ArgMax", 13).attr("axis", int64_t{1}).input(random_tensor({2, 3, 5}, 1)).expect_check_guards();
  OpTest("ArgMin", 13)
      .attr("axis", int64_t{2})
      .input(random_tensor({2, 3, 5}, 1, 0, 9, DType::kI32))
      .expect_check_guards();
}

TEST_CASE("reduce_checks_refuse_hostile_steps") {
  const KernelDef* split = builtin_kernels().find("reduce_f32");
  const KernelDef* any = builtin_kernels().find("reduce_any");
  const KernelDef* arg = builtin_kernels().find("arg_reduce_any");
  REQUIRE((split && any && arg));
  const Tensor x(DType::kF32, {2, 3});
  const Tensor y(DType::kF32, {2});
  const Tensor positions(DType::kI64, {2});
  const TensorRef in = make_ref(x);
  const TensorRef out = make_ref(y);
  const TensorRef out_i64 = make_ref(positions);
  using ops::reduce::ReduceSplitParams;
  auto check_split_params = [&](ReduceSplitParams p) {
    return split->check({&p, sizeof(p), &in, 1, &out, 1, nullptr, 0, &serial_parallel()}).ok();
  };
  CHECK(check_split_params({0, 2, 3, 1}));
  CHECK_FALSE(check_split_params({0, 1, 3, 2 + 1}));
  CHECK_FALSE(check_split_params({0, 3, 2, 1}));
  CHECK_FALSE(check_split_params({9, 2, 3, 1}));
  CHECK_FALSE(check_split_params({-1, 2, 3, 1}));
  auto check_mask = [&](int32_t op, int32_t mask) {
    const ops::reduce::ReduceParams p{op, mask};
    return any->check({&p, sizeof(p), &in, 1, &out, 1, nullptr, 0, &serial_parallel()}).ok();
  };
  CHECK(check_mask(0, 2));
  CHECK_FALSE(check_mask(0, 1));
  CHECK_FALSE(check_mask(0, 4));
  CHECK_FALSE(check_mask(0, -1));
  CHECK_FALSE(check_mask(10, 2));
  auto check_arg = [&](ops::reduce::ArgReduceParams p, const TensorRef& to) {
    return arg->check({&p, sizeof(p), &in, 1, &to, 1, nullptr, 0, &serial_parallel()}).ok();
  };
  CHECK(check_arg({2, 3, 1, 0, 0}, out_i64));
  CHECK_FALSE(check_arg({2, 3, 1, 0, 0}, out));
  CHECK_FALSE(check_arg({6, 0, 1, 0, 0}, out_i64));
}
