#include "passes/expand_qlinear.h"

#include <doctest/doctest.h>

#include "op_test.h"
#include "pass_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// One step of 8 bits, as expect_same_results measures: outputs reach 127 at least.
constexpr double kOneStep = 1.01 / 127;

Graph graph_with(const char* nodes) {
  return read_graph(std::string(R"(
    graph "g" opset 13
    input %x: f32[1, 4, 5, 5]
    input %f: f32[3, 4]
    const %xs: f32[] = {0.02}
    const %xz: u8[] = {100}
    const %is: f32[] = {0.02}
    const %iz: i8[] = {-3}
    const %ys: f32[] = {0.015}
    const %yz: u8[] = {120}
    const %w: i8[2, 4, 3, 3] = random(1, -128, 127)
    const %ws: f32[2] = {0.0005, 0.0007}
    const %wz: i8[1] = {2}
    const %m: i8[4, 3] = random(2, -128, 127)
    const %ms: f32[3] = {0.005, 0.007, 0.006}
    const %mz: i8[3] = {0, 1, 2}
    const %bias: i32[2] = {500, -700}
    const %c: i32[3] = {500, -700, 20}
    const %fc: f32[3] = {0.5, -0.7, 0.2}
    %q = QuantizeLinear(%x, %xs, %xz)
    %i = QuantizeLinear(%x, %is, %iz)
    %a = QuantizeLinear(%f, %xs, %xz)
  )") + nodes + "\noutput %y\n");
}

// What the graph gives for x and f.
Tensor run(const Graph& graph, const Tensor& x, const Tensor& f) {
  const Tensor inputs[] = {x, f};
  Result<std::vector<Tensor>> outputs = evaluate_graph(builtin_ops(), graph, inputs);
  REQUIRE(outputs.ok());
  return (*outputs)[0];
}

// The expanded graph against the same written with float operators.
void expect_equal(const char* quantized, const char* by_hand) {
  INFO(quantized);
  Graph graph = graph_with(quantized);
  const Graph before = graph;
  CHECK(run_pass(graph, expand_qlinear) == 1);
  expect_same_results(before, graph, 1, kOneStep);
  expect_same_results(graph_with(by_hand), graph, 1, 1e-6);
}

}  // namespace

TEST_CASE("expand_qlinear_conv_and_matmul_stay_within_a_step") {
  Graph conv = graph_with("%y = QLinearConv(%q, %xs, %xz, %w, %ws, %wz, %ys, %yz, %bias) pads=[1, 1, 1, 1] 'conv'");
  const Graph conv_before = conv;
  CHECK(run_pass(conv, expand_qlinear) == 1);
  expect_same_results(conv_before, conv, 1, kOneStep);
  const Node& node = only_node(conv, "Conv");
  CHECK(node.name == "conv");
  const Value& weights = conv.value(node.inputs[1]);
  REQUIRE(weights.quantized != nullptr);
  CHECK(weights.quantized->axis == 0);
  CHECK(weights.quantized->scale->num_elements() == 2);
  CHECK(weights.quantized->zero_point->num_elements() == 2);
  const Tensor* bias = conv.value(node.inputs[2]).constant.get();
  REQUIRE(bias != nullptr);
  CHECK(bias->as<float>()[1] == doctest::Approx(-700 * 0.02 * 0.0007));

  Graph matmul = graph_with("%y = QLinearMatMul(%a, %xs, %xz, %m, %ms, %mz, %ys, %yz)");
  const Graph matmul_before = matmul;
  CHECK(run_pass(matmul, expand_qlinear) == 1);
  expect_same_results(matmul_before, matmul, 1, kOneStep);
  CHECK(matmul.value(only_node(matmul, "MatMul").inputs[1]).quantized->axis == 1);
}

TEST_CASE("expand_qlinear_com_microsoft_is_the_float_operator") {
  expect_equal("%y = com.microsoft::QLinearAdd@1(%q, %xs, %xz, %q, %is, %xz, %ys, %yz)", R"(
    %d = DequantizeLinear(%q, %xs, %xz)
    %e = DequantizeLinear(%q, %is, %xz)
    %s = Add(%d, %e)
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QLinearMul@1(%q, %xs, %xz, %i, %is, %iz, %ys, %yz)", R"(
    %d = DequantizeLinear(%q, %xs, %xz)
    %e = DequantizeLinear(%i, %is, %iz)
    %s = Mul(%d, %e)
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QLinearSigmoid@1(%i, %is, %iz, %ys, _)", R"(
    %d = DequantizeLinear(%i, %is, %iz)
    %s = Sigmoid(%d)
    const %z: i8[] = {0}
    %y = QuantizeLinear(%s, %ys, %z))");
  expect_equal("%y = com.microsoft::QLinearLeakyRelu@1(%q, %xs, %xz, %ys, %yz) alpha=0.3", R"(
    %d = DequantizeLinear(%q, %xs, %xz)
    %s = LeakyRelu(%d) alpha=0.3
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QLinearSoftmax@1(%a, %xs, %xz, %ys, %yz) axis=-1 opset=13", R"(
    %d = DequantizeLinear(%a, %xs, %xz)
    %s = Softmax(%d) axis=-1
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QLinearAveragePool@1(%q, %xs, %xz, %ys, %yz) kernel_shape=[2, 2] channels_last=1",
               R"(
    %d = DequantizeLinear(%q, %xs, %xz)
    %t = Transpose(%d) perm=[0, 3, 1, 2]
    %p = AveragePool(%t) kernel_shape=[2, 2]
    %s = Transpose(%p) perm=[0, 2, 3, 1]
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QLinearGlobalAveragePool@1(%q, %xs, %xz, %ys, %yz) channels_last=0", R"(
    %d = DequantizeLinear(%q, %xs, %xz)
    %s = GlobalAveragePool(%d)
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QLinearConcat@1(%ys, %yz, %q, %xs, %xz, %q, %is, _) axis=1", R"(
    %d = DequantizeLinear(%q, %xs, %xz)
    %e = DequantizeLinear(%q, %is)
    %s = Concat(%d, %e) axis=1
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::QGemm@1(%a, %xs, %xz, %m, %ms, %mz, %c, %ys, %yz) alpha=0.5", R"(
    %d = DequantizeLinear(%a, %xs, %xz)
    %e = DequantizeLinear(%m, %ms, %mz)
    const %cs: f32[3] = {0.00005, 0.00007, 0.00006}
    %b = DequantizeLinear(%c, %cs) axis=0
    %s = Gemm(%d, %e, %b) alpha=0.5
    %y = QuantizeLinear(%s, %ys, %yz))");
  expect_equal("%y = com.microsoft::MatMulIntegerToFloat@1(%a, %m, %xs, %ms, %xz, %mz, %fc)", R"(
    %d = DequantizeLinear(%a, %xs, %xz)
    %e = DequantizeLinear(%m, %ms, %mz)
    %s = MatMul(%d, %e)
    %y = Add(%s, %fc))");
  expect_equal("%y = com.microsoft::DynamicQuantizeMatMul@1(%f, %m, %ms, %mz, %fc)", R"(
    %k, %ks, %kz = DynamicQuantizeLinear(%f)
    %d = DequantizeLinear(%k, %ks, %kz)
    %e = DequantizeLinear(%m, %ms, %mz)
    %s = MatMul(%d, %e)
    %y = Add(%s, %fc))");
}

TEST_CASE("expand_qlinear_sums_that_become_floats") {
  const char* const nodes = R"(
    %k, %ks, %kz = DynamicQuantizeLinear(%f)
    %sum = MatMulInteger(%k, %m, %kz, %mz)
    %cast = Cast(%sum) to=1
    %scale = Mul(%ks, %ms)
    %y = Mul(%cast, %scale))";
  Graph graph = graph_with(nodes);
  const Graph before = graph;
  CHECK(run_pass(graph, expand_qlinear) == 1);
  CHECK(count_nodes(graph, "Cast") == 0);
  const Value& weights = graph.value(only_node(graph, "MatMul").inputs[1]);
  REQUIRE(weights.quantized != nullptr);
  CHECK(weights.quantized->zero_point->num_elements() == 3);
  expect_same_results(before, graph, 1, 1e-6);

  Graph conv = graph_with("%sum = ConvInteger(%q, %w, %xz, %wz)\n%y = Cast(%sum) to=1");
  const Graph conv_before = conv;
  CHECK(run_pass(conv, expand_qlinear) == 1);
  expect_same_results(conv_before, conv, 1, 0);
}

TEST_CASE("expand_qlinear_leaves_what_is_known_at_run_time_only") {
  Graph scale = graph_with(R"(
    %k, %ks, %kz = DynamicQuantizeLinear(%f)
    %y = QLinearMatMul(%k, %ks, %kz, %m, %ms, %mz, %ys, %yz))");
  CHECK(run_pass(scale, expand_qlinear) == 0);
  Graph sum = graph_with("%y = MatMulInteger(%a, %m, %xz, %mz)");
  CHECK(run_pass(sum, expand_qlinear) == 0);
  // Operators without a kernel of their own go in any case.
  Graph other = graph_with(R"(
    %k, %ks, %kz = DynamicQuantizeLinear(%f)
    %y = com.microsoft::QLinearMul@1(%k, %ks, %kz, %k, %ks, %kz, %ys, %yz))");
  CHECK(run_pass(other, expand_qlinear) == 1);
  CHECK(count_nodes(other, "DequantizeLinear") == 1);
  run(other, random_tensor({1, 4, 5, 5}, 1), random_tensor({3, 4}, 2));
}
