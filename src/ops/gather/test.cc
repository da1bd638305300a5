#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"

namespace kiln::test {
namespace {

Tensor i64(const Shape& shape, const std::vector<double>& values) { return make_tensor(DType::kI64, shape, values); }
const Tensor kGrid = make_tensor(DType::kF32, {3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});

OpTest binary(const char* op, const Tensor& data, const Tensor& indices, int64_t axis = 0, int opset = 13) {
  OpTest test(op, opset);
  if (axis != 0) test.attr("axis", axis);
  test.input(data).input(indices);
  return test;
}

OpTest topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true) {
  OpTest test("TopK", 11);
  test.attr("axis", axis).attr("largest", int64_t{largest}).input(x).constant_i64({k}).outputs(2);
  return test;
}

}  // namespace

TEST_CASE("gather_axes_and_negative_indices") {
  binary("Gather", kGrid, i64({2}, {0, -1})).expect_reference(0, {2, 3}, {0, 1, 2, 6, 7, 8});
  binary("Gather", kGrid, i64({1, 2}, {2, 0}), 1).expect_reference(0, {3, 1, 2}, {2, 0, 5, 3, 8, 6});
  binary("Gather", kGrid, i64({}, {1}), -1).expect_reference(0, {3}, {1, 4, 7});
}

TEST_CASE("gather_kernel_matches_reference") {
  for (DType dtype : {DType::kF32, DType::kU8, DType::kI64, DType::kF16}) {
    for (int64_t axis : {0, 1, 2}) {
      const Tensor data = random_tensor({5, 6, 7}, 1, 0, 100, dtype);
      binary("Gather", data, random_tensor({3, 4}, 2, -5, 5, DType::kI64), axis).expect_kernel_matches_reference(0);
      binary("Gather", data, random_tensor({2}, 2, -5, 5, DType::kI32), axis).expect_kernel_matches_reference(0);
    }
  }
  binary("Gather", random_tensor({400, 300}, 1), random_tensor({500}, 2, 0, 399, DType::kI32))
      .expect_kernel_matches_reference(0);
}

TEST_CASE("gather_clamps_indices_that_are_data_and_rejects_constant_ones") {
  binary("Gather", kGrid, i64({3}, {-100, 1e15, 3})).expect_reference(0, {3, 3}, {0, 1, 2, 6, 7, 8, 6, 7, 8});
  binary("Gather", kGrid, i64({3}, {-100, 1e15, 3})).expect_kernel_matches_reference(0);
  binary("GatherElements", kGrid, i64({1, 3}, {-100, 1e15, 3})).expect_reference(0, {1, 3}, {0, 7, 8});
  binary("GatherND", kGrid, i64({2, 2}, {-100, 1, 1e15, 1})).expect_reference(0, {2}, {1, 7});
  OpTest constant("Gather", 13);
  constant.input(kGrid).constant_i64({3}).expect_problem("within [-3, 3)");
  binary("Gather", Tensor(DType::kF32, {0, 3}), i64({1}, {0})).expect_problem("axis is empty");
  binary("Gather", kGrid, i64({1}, {0}), 2).expect_problem("axis");
  binary("Gather", kGrid, make_tensor(DType::kF32, {1}, {0})).expect_problem("dtype");
}

TEST_CASE("gather_elements") {
  const Tensor indices = i64({2, 3}, {1, 2, 0, 2, -3, 0});
  binary("GatherElements", kGrid, indices).expect_reference(0, {2, 3}, {3, 7, 2, 6, 1, 2});
  binary("GatherElements", kGrid, i64({3, 2}, {0, 0, 1, 0, 2, 1}), 1).expect_reference(0, {3, 2}, {0, 0, 4, 3, 8, 7});
  binary("GatherElements", kGrid, indices).expect_kernel_matches_reference(0);
  binary("GatherElements", kGrid, i64({4, 4}, std::vector<double>(16))).expect_problem("shape of indices");
}

TEST_CASE("gather_nd") {
  const Tensor data = make_tensor(DType::kI32, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  binary("GatherND", data, i64({2, 3}, {0, 0, 1, 1, -1, 0})).expect_reference(0, {2}, {1, 6});
  binary("GatherND", data, i64({2, 1}, {1, 0})).expect_reference(0, {2, 2, 2}, {4, 5, 6, 7, 0, 1, 2, 3});
  OpTest batched = binary("GatherND", data, i64({2, 1}, {1, 0}));
  batched.attr("batch_dims", int64_t{1}).expect_reference(0, {2, 2}, {2, 3, 4, 5});
  batched.expect_kernel_matches_reference(0);
  binary("GatherND", data, i64({2, 4}, std::vector<double>(8))).expect_problem("shape of indices");
}

TEST_CASE("scatter_elements_and_its_reductions") {
  const auto scatter = [](const char* reduction, const Tensor& indices, const Tensor& updates, int64_t axis) {
    OpTest test("ScatterElements", 18);
    test.attr("axis", axis).attr("reduction", std::string(reduction)).input(kGrid).input(indices).input(updates);
    return test;
  };
  const Tensor updates = make_tensor(DType::kF32, {1, 2}, {10, 20});
  scatter("none", i64({1, 2}, {1, -1}), updates, 1).expect_reference(0, {3, 3}, {0, 10, 20, 3, 4, 5, 6, 7, 8});
  scatter("add", i64({1, 2}, {2, 2}), updates, 1).expect_reference(0, {3, 3}, {0, 1, 32, 3, 4, 5, 6, 7, 8});
  scatter("mul", i64({1, 2}, {1, 2}), updates, 0).expect_reference(0, {3, 3}, {0, 1, 2, 30, 4, 5, 6, 140, 8});
  scatter("max", i64({1, 2}, {2, 1}), updates, 0).expect_reference(0, {3, 3}, {0, 1, 2, 3, 20, 5, 10, 7, 8});
  scatter("min", i64({1, 2}, {2, 1}), updates, 0).expect_reference(0, {3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  // Outside: dropped.
  scatter("none", i64({1, 2}, {3, -4}), updates, 1).expect_reference(0, {3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  scatter("none", i64({1, 2}, {1, -1}), updates, 1).expect_kernel_matches_reference(0);
  scatter("mean", i64({1, 2}, {1, -1}), updates, 1).expect_problem("reduction");
  scatter("none", i64({1, 3}, {0, 0, 0}), updates, 1).expect_problem("shape of indices");
}

TEST_CASE("scatter_nd_and_its_reductions") {
  const auto scatter = [](const char* reduction, const Tensor& indices, const Tensor& updates) {
    OpTest test("ScatterND", 18);
    test.attr("reduction", std::string(reduction)).input(make_tensor(DType::kI32, {4}, {1, 2, 3, 4}));
    test.input(indices).input(updates);
    return test;
  };
  const Tensor updates = make_tensor(DType::kI32, {2}, {10, 20});
  scatter("none", i64({2, 1}, {3, 0}), updates).expect_reference(0, {4}, {20, 2, 3, 10});
  scatter("add", i64({2, 1}, {-1, 3}), updates).expect_reference(0, {4}, {1, 2, 3, 34});
  scatter("none", i64({2, 1}, {4, -5}), updates).expect_reference(0, {4}, {1, 2, 3, 4});
  scatter("none", i64({2, 1}, {3, 0}), updates).expect_kernel_matches_reference(0);
  scatter("none", i64({2, 2}, {3, 0, 1, 1}), updates).expect_problem("shape of indices");
}

TEST_CASE("one_hot") {
  OpTest test("OneHot", 11);
  test.input(i64({3}, {0, -1, 7})).constant_i64({3}).constant(make_tensor(DType::kF32, {2}, {0.5, 2}));
  test.expect_reference(0, {3, 3}, {2, 0.5, 0.5, 0.5, 0.5, 2, 0.5, 0.5, 0.5});
  test.expect_kernel_matches_reference(0);
  OpTest axis("OneHot", 11);
  axis.attr("axis", int64_t{0})
      .input(i64({2}, {0, 1}))
      .constant_i64({2})
      .constant(make_tensor(DType::kI32, {2}, {0, 1}));
  axis.expect_reference(0, {2, 2}, {1, 0, 0, 1});
}

TEST_CASE("nonzero_of_a_constant") {
  OpTest test("NonZero", 13);
  test.constant(make_tensor(DType::kBool, {2, 2}, {1, 0, 1, 1})).expect_reference(0, {2, 3}, {0, 1, 1, 0, 0, 1});
  OpTest run_time("NonZero", 13);
  run_time.input(kGrid).expect_problem("run time");
}

TEST_CASE("topk_ties_take_the_lower_index_first") {
  const Tensor x = make_tensor(DType::kF32, {6}, {2, 5, 1, 5, 2, 5});
  topk(x, 4).expect_reference(0, {4}, {5, 5, 5, 2});
  topk(x, 4).expect_reference(1, {4}, {1, 3, 5, 0});
  topk(x, 3, 0, false).expect_reference(1, {3}, {2, 0, 4});
  topk(x, 4).expect_kernel_matches_reference(0);
  topk(x, 0).expect_reference(0, {0}, {});
  const Tensor nan = make_tensor(DType::kF32, {4}, {NAN, 1, INFINITY, -INFINITY});
  topk(nan, 4).expect_reference(1, {4}, {2, 1, 3, 0});
  topk(nan, 4, 0, false).expect_reference(1, {4}, {3, 1, 2, 0});
}

TEST_CASE("topk_kernel_matches_reference") {
  for (DType dtype : {DType::kF32, DType::kI64, DType::kU8, DType::kF64, DType::kF16}) {
    for (bool largest : {true, false}) {
      // Few different values: many ties.
      topk(random_tensor({3, 50, 4}, 1, -6, 6, dtype), 17, 1, largest).expect_kernel_matches_reference(0);
      topk(random_tensor({2, 300}, 1, -1000, 1000, dtype), 300, -1, largest).expect_kernel_matches_reference(0);
      topk(random_tensor({40, 3}, 1, -6, 6, dtype), 1, 0, largest).expect_kernel_matches_reference(0);
    }
  }
  topk(random_tensor({1, 8400}, 5), 300).expect_kernel_matches_reference(0);
}

TEST_CASE("topk_before_opset_10_has_k_as_attribute") {
  OpTest test("TopK", 9);
  test.attr("k", int64_t{2}).input(make_tensor(DType::kF32, {4}, {1, 4, 3, 2})).outputs(2);
  test.expect_reference(1, {2}, {1, 2});
  topk(kGrid, 4).expect_problem("0 to 3");
  topk(kGrid, 1, 2).expect_problem("axis");
}

TEST_CASE("trilu") {
  const auto trilu = [](int64_t upper, int64_t k) {
    OpTest test("Trilu", 14);
    test.attr("upper", upper).input(kGrid).constant(make_tensor(DType::kI64, {}, {static_cast<double>(k)}));
    return test;
  };
  trilu(1, 0).expect_reference(0, {3, 3}, {0, 1, 2, 0, 4, 5, 0, 0, 8});
  trilu(1, 1).expect_reference(0, {3, 3}, {0, 1, 2, 0, 0, 5, 0, 0, 0});
  trilu(0, -1).expect_reference(0, {3, 3}, {0, 0, 0, 3, 0, 0, 6, 7, 0});
  trilu(0, -1).expect_kernel_matches_reference(0);
  OpTest flat("Trilu", 14);
  flat.input(random_tensor({3}, 1)).expect_problem("rank");
}

TEST_CASE("cumsum") {
  const auto cumsum = [](double axis, int64_t exclusive, int64_t reverse, DType dtype) {
    OpTest test("CumSum", 14);
    test.attr("exclusive", exclusive).attr("reverse", reverse);
    test.input(make_tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6})).constant(make_tensor(DType::kI32, {}, {axis}));
    return test;
  };
  cumsum(1, 0, 0, DType::kF32).expect_reference(0, {2, 3}, {1, 3, 6, 4, 9, 15});
  cumsum(-2, 0, 0, DType::kI64).expect_reference(0, {2, 3}, {1, 2, 3, 5, 7, 9});
  cumsum(1, 1, 0, DType::kI32).expect_reference(0, {2, 3}, {0, 1, 3, 0, 4, 9});
  cumsum(1, 1, 1, DType::kF64).expect_reference(0, {2, 3}, {5, 3, 0, 11, 6, 0});
  cumsum(1, 0, 1, DType::kF32).expect_kernel_matches_reference(0);
  cumsum(2, 0, 0, DType::kF32).expect_problem("axis");
}

TEST_CASE("gather_family_check_guards") {
  binary("Gather", kGrid, random_tensor({2, 2}, 2, -5, 5, DType::kI64), 1).expect_check_guards();
  binary("Gather", kGrid, random_tensor({2, 2}, 2, -5, 5, DType::kI32), 0).expect_check_guards();
  binary("GatherElements", kGrid, random_tensor({2, 3}, 2, -5, 5, DType::kI64)).expect_check_guards();
  binary("GatherND", kGrid, random_tensor({2, 1}, 2, -5, 5, DType::kI64)).expect_check_guards();
  OpTest elements("ScatterElements", 18);
  elements.input(kGrid).input(random_tensor({2, 3}, 2, -5, 5, DType::kI64)).input(random_tensor({2, 3}, 1));
  elements.attr("reduction", std::string("add")).expect_check_guards();
  OpTest nd("ScatterND", 18);
  nd.input(kGrid).input(random_tensor({2, 1}, 2, -5, 5, DType::kI64)).input(random_tensor({2, 3}, 1));
  nd.expect_check_guards();
  OpTest hot("OneHot", 11);
  hot.input(i64({3}, {0, -1, 7})).constant_i64({3}).constant(make_tensor(DType::kF32, {2}, {0.5, 2}));
  hot.expect_check_guards();
  topk(random_tensor({2, 9, 2}, 1), 4, 1).expect_check_guards();
  OpTest trilu("Trilu", 14);
  trilu.input(kGrid).expect_check_guards();
  OpTest cumsum("CumSum", 14);
  cumsum.input(kGrid).constant(make_tensor(DType::kI32, {}, {1})).expect_check_guards();
}

}  // namespace kiln::test
