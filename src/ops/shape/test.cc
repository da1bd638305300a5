#include "ops/shape/shape.h"

#include <doctest/doctest.h>

#include "op_test.h"

namespace kiln::test {
namespace {

OpTest shape(const Shape& x, int64_t start, int64_t end) {
  OpTest test("Shape", 15);
  test.attr("start", start).attr("end", end).input(random_tensor(x, 1));
  return test;
}

OpTest range(DType dtype, double start, double limit, double delta) {
  OpTest test("Range", 11);
  for (double value : {start, limit, delta}) test.constant(make_tensor(dtype, {}, {value}));
  return test;
}

}  // namespace

TEST_CASE("shape_start_and_end_count_as_in_slicing") {
  OpTest all("Shape", 13);
  all.input(random_tensor({2, 3, 4}, 1)).expect_reference(0, {3}, {2, 3, 4});
  shape({2, 3, 4}, 1, 3).expect_reference(0, {2}, {3, 4});
  shape({2, 3, 4}, -1, 3).expect_reference(0, {1}, {4});
  shape({2, 3, 4}, 0, -1).expect_reference(0, {2}, {2, 3});
  shape({2, 3, 4}, -10, 10).expect_reference(0, {3}, {2, 3, 4});
  shape({2, 3, 4}, 2, 1).expect_reference(0, {0}, {});
  shape({2, 3, 4}, INT64_MIN, INT64_MAX).expect_reference(0, {3}, {2, 3, 4});
  OpTest scalar("Shape", 13);
  scalar.input(make_f32_scalar(1)).expect_reference(0, {0}, {});
}

TEST_CASE("size_counts_elements") {
  OpTest test("Size", 13);
  test.input(random_tensor({2, 3, 4}, 1)).expect_reference(0, {}, {24});
  OpTest empty("Size", 13);
  empty.input(Tensor(DType::kF32, {2, 0})).expect_reference(0, {}, {0});
}

TEST_CASE("fold_shape_needs_no_elements") {
  Graph graph;
  Node node;
  node.op = "Shape";
  node.opset = 15;
  node.attrs["start"] = int64_t{1};
  node.inputs = {graph.add_value("x", DType::kF32, {1, 3, 640, 480})};
  node.outputs = {graph.add_value("y")};
  Tensor value;
  REQUIRE(ops::shape::fold_shape(NodeView(graph, node), &value));
  const int64_t expected[] = {3, 640, 480};
  CHECK(value == make_i64_vector(expected, 3));
  graph.value(node.inputs[0]).shape[2] = kUnknownDim;
  CHECK_FALSE(ops::shape::fold_shape(NodeView(graph, node), &value));
  node.op = "Relu";
  CHECK_FALSE(ops::shape::fold_shape(NodeView(graph, node), &value));
}

TEST_CASE("constant_forms") {
  const auto constant = [](const char* name, Attr value) {
    OpTest test("Constant", 13);
    test.attr(name, std::move(value));
    return test;
  };
  constant("value", std::make_shared<const Tensor>(make_tensor(DType::kU8, {2}, {3, 4})))
      .expect_reference(0, {2}, {3, 4});
  constant("value_float", 2.5f).expect_reference(0, {}, {2.5});
  constant("value_int", int64_t{-7}).expect_reference(0, {}, {-7});
  constant("value_floats", std::vector<float>{1, 2}).expect_reference(0, {2}, {1, 2});
  constant("value_ints", std::vector<int64_t>{1, 2, 3}).expect_reference(0, {3}, {1, 2, 3});
  constant("value_ints", std::vector<int64_t>{}).expect_reference(0, {0}, {});
  constant("value_string", std::string("text")).expect_problem("value_string");
  OpTest none("Constant", 13);
  none.expect_problem("none");
}

TEST_CASE("constant_of_shape") {
  OpTest zeros("ConstantOfShape", 9);
  zeros.constant_i64({2, 3}).expect_reference(0, {2, 3}, {0, 0, 0, 0, 0, 0});
  OpTest ones("ConstantOfShape", 9);
  ones.attr("value", std::make_shared<const Tensor>(make_tensor(DType::kI64, {1}, {1})));
  ones.constant_i64({3}).expect_reference(0, {3}, {1, 1, 1});
  OpTest scalar("ConstantOfShape", 9);
  scalar.constant(Tensor(DType::kI64, {0})).expect_reference(0, {}, {0});
  OpTest empty("ConstantOfShape", 9);
  empty.constant_i64({0}).expect_reference(0, {0}, {});
  OpTest negative("ConstantOfShape", 9);
  negative.constant_i64({-1}).expect_problem(">= 0");
  OpTest huge("ConstantOfShape", 9);
  huge.constant_i64({1 << 20, 1 << 20}).expect_problem("2^31");
}

TEST_CASE("range_forms") {
  range(DType::kF32, 1, 5, 2).expect_reference(0, {2}, {1, 3});
  range(DType::kF32, 0, 1, 0.25).expect_reference(0, {4}, {0, 0.25, 0.5, 0.75});
  range(DType::kI32, 10, 6, -3).expect_reference(0, {2}, {10, 7});
  range(DType::kI64, 0, 4, 1).expect_reference(0, {4}, {0, 1, 2, 3});
  range(DType::kI64, 4, 0, 1).expect_reference(0, {0}, {});
  range(DType::kI64, 3, 3, -1).expect_reference(0, {0}, {});
  range(DType::kI64, 0, 4, 0).expect_problem("delta");
  range(DType::kF32, 0, 4, 0).expect_problem("delta");
  range(DType::kI64, -9e18, 9e18, 1).expect_problem("delta");
}

TEST_CASE("eye_like") {
  OpTest test("EyeLike", 9);
  test.attr("k", int64_t{1}).input(random_tensor({2, 3}, 1)).expect_reference(0, {2, 3}, {0, 1, 0, 0, 0, 1});
  OpTest typed("EyeLike", 9);
  typed.attr("dtype", int64_t{6}).input(random_tensor({2, 2}, 1)).expect_reference(0, {2, 2}, {1, 0, 0, 1});
  typed.expect_kernel_matches_reference(0);
  typed.expect_check_guards();
  OpTest cube("EyeLike", 9);
  cube.input(random_tensor({2, 2, 2}, 1)).expect_problem("rank");
}

}  // namespace kiln::test
