#include "passes/fuse_quantized.h"

#include <doctest/doctest.h>

#include "pass_test.h"
#include "passes/dce.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// One step of 8 bits, as expect_same_results measures: outputs reach 127 at least.
constexpr double kOneStep = 1.01 / 127;

// Channels last, as the layout passes leave it; %x is 8-bit, %d real, %w and %m dequantised weights.
Graph graph_with(const std::string& nodes) {
  return read_graph(R"(
    graph "g" opset 13
    input %f: f32[1, 5, 6, 8]
    const %xs: f32[] = {0.01}
    const %xz: u8[] = {100}
    const %ys: f32[] = {0.02}
    const %yz: u8[] = {120}
    const %zs: f32[] = {0.05}
    const %zz: i8[] = {-7}
    const %wi: i8[16, 8, 3, 3] = random(1, -128, 127)
    const %ws: f32[16] = {0.001, 0.002, 0.0015, 0.001, 0.002, 0.0015, 0.001, 0.002, 0.001, 0.002, 0.0015, 0.001, 0.002, 0.0015, 0.001, 0.002}
    const %di: i8[8, 1, 3, 3] = random(2, -128, 127)
    const %ds: f32[] = {0.004}
    const %mi: i8[8, 12] = random(3, -128, 127)
    const %ms: f32[] = {0.003}
    const %bias: f32[16] = random(4)
    %w = DequantizeLinear(%wi, %ws) axis=0
    %dw = DequantizeLinear(%di, %ds)
    %m = DequantizeLinear(%mi, %ms)
    %x = QuantizeLinear(%f, %xs, %xz)
    %d = DequantizeLinear(%x, %xs, %xz)
  )" + nodes);
}

Graph fused(const Graph& before) {
  Graph graph = before;
  run_pass(graph, fuse_quantized);
  run_pass(graph, dce);
  return graph;
}

// The fused graph computes the same to a step, and holds `count` nodes of `op`.
Graph expect_fused(const std::string& nodes, const char* op, int count, double tolerance = kOneStep) {
  INFO(nodes);
  const Graph before = graph_with(nodes);
  Graph graph = fused(before);
  CHECK(count_nodes(graph, op) == count);
  expect_same_results(before, graph, 1, tolerance);
  return graph;
}

}  // namespace

TEST_SUITE("passes/fuse_quantized") {
  TEST_CASE("convolutions_take_and_give_bytes") {
    const char* kForms[] = {
        R"(%y = Conv(%d, %w, %bias) layout="NHWC" pads=[1, 1, 1, 1])",
        R"(%y = Conv(%d, %w) layout="NHWC" strides=[2, 2] activation="Clip" activation_a=0.0 activation_b=1.5)",
        R"(%y = Conv(%d, %w, %bias) layout="NHWC" activation="Silu")",
        R"(%y = Conv(%d, %dw) layout="NHWC" group=8 pads=[1, 1, 1, 1] activation="HardSwish")",
    };
    for (const char* form : kForms) {
      const Graph graph =
          expect_fused(std::string(form) + "\n%q = QuantizeLinear(%y, %ys, %yz)\noutput %q", "QuantConv", 1);
      CHECK(count_nodes(graph, "DequantizeLinear") == 0);
      CHECK(count_nodes(graph, "QuantizeLinear") == 1);  // of the input
    }
  }

  TEST_CASE("residuals_are_rescaled_in_the_convolution") {
    const Graph graph = expect_fused(R"(
      %a = Conv(%d, %w) layout="NHWC" pads=[1, 1, 1, 1]
      %aq = QuantizeLinear(%a, %zs, %zz)
      %ad = DequantizeLinear(%aq, %zs, %zz)
      %b = Conv(%d, %w, %bias, %ad) layout="NHWC" pads=[1, 1, 1, 1] activation="Silu" residual="after_activation"
      %q = QuantizeLinear(%b, %ys, %yz)
      output %q)",
                                     "QuantConv", 2);
    CHECK(count_nodes(graph, "DequantizeLinear") == 0);
  }

  TEST_CASE("an_output_that_is_read_as_it_is_stays_real") {
    const Graph graph = expect_fused(R"(
      %y = Conv(%d, %w, %bias) layout="NHWC" activation="Silu"
      %z = Softmax(%y) axis=-1
      output %y
      output %z)",
                                     "QuantConv", 1, 1e-5);
    CHECK(attr_string(only_node(graph, "QuantConv"), "y_dtype", "") == "f32");
  }

  TEST_CASE("channels_scaled_behind_a_convolution_become_its_gains") {
    const Graph graph = expect_fused(R"(
      const %g: f32[16] = {1, 2, 1.5, 1, 3, 1, 1, 2, 1, 2, 1.5, 1, 3, 1, 1, 2}
      %y = Conv(%d, %w, %bias) layout="NHWC" activation="Silu"
      %s = Mul(%y, %g)
      %q = QuantizeLinear(%s, %ys, %yz)
      output %q)",
                                     "Mul", 0);
    CHECK(only_node(graph, "QuantConv").inputs.size() == 6);
  }

  TEST_CASE("products_are_convolutions_of_a_pixel") {
    expect_fused("%y = MatMul(%d, %m)\n%q = QuantizeLinear(%y, %ys, %yz)\noutput %q", "QuantConv", 1);
  }

  TEST_CASE("what_moves_numbers_moves_bytes") {
    const Graph graph = expect_fused(R"(
      const %shape: i64[3] = {1, 30, 8}
      %p = MaxPool(%d) layout="NHWC" kernel_shape=[3, 3] pads=[1, 1, 1, 1]
      %t = Transpose(%p) perm=[0, 2, 1, 3]
      %r = Reshape(%t, %shape)
      %c = Concat(%r, %r) axis=1
      %q = QuantizeLinear(%c, %xs, %xz)
      %y = DequantizeLinear(%q, %xs, %xz)
      output %y)",
                                     "DequantizeLinear", 1, 0);
    CHECK(count_nodes(graph, "QuantizeLinear") == 1);
    CHECK(graph.value(only_node(graph, "MaxPool").inputs[0]).dtype == DType::kU8);
  }

  TEST_CASE("functions_of_one_number_and_changes_of_scale_are_tables") {
    expect_fused("%y = Sigmoid(%d)\n%q = QuantizeLinear(%y, %ys, %yz)\noutput %q", "QuantTable", 1, 0);
    expect_fused("const %two: f32[] = {2}\n%y = Mul(%d, %two)\n%q = QuantizeLinear(%y, %zs, %zz)\noutput %q",
                 "QuantTable", 1, 0);
    expect_fused("%q = QuantizeLinear(%d, %zs, %zz)\noutput %q", "QuantTable", 1, 0);
  }

  TEST_CASE("additions_and_products_of_two_are_of_bytes") {
    for (const char* op : {"Add", "Mul"}) {
      expect_fused(std::string(R"(
        %aq = QuantizeLinear(%f, %zs, %zz)
        %ad = DequantizeLinear(%aq, %zs, %zz)
        %y = )") + op + R"((%d, %ad)
        %q = QuantizeLinear(%y, %ys, %yz)
        output %q)",
                   "QuantBinary", 1);
    }
  }

  TEST_CASE("what_is_not_understood_stays") {
    // Weights without integers, readers of two scales, an input in ONNX order, and all of it if the user says so.
    const char* kForms[] = {
        "const %v: f32[16, 8, 3, 3] = random(9)\n%y = Conv(%d, %v) layout=\"NHWC\"\n%q = QuantizeLinear(%y, %ys, "
        "%yz)\noutput %q",
        "%y = Conv(%f, %w) layout=\"NHWC\"\n%q = QuantizeLinear(%y, %ys, %yz)\noutput %q",
    };
    for (const char* form : kForms) expect_fused(form, "QuantConv", 0, 1e-5);
    const Graph two = expect_fused(R"(
      %y = Conv(%d, %w) layout="NHWC"
      %a = QuantizeLinear(%y, %ys, %yz)
      %b = QuantizeLinear(%y, %zs, %zz)
      output %a
      output %b)",
                                   "QuantConv", 1);
    CHECK(attr_string(only_node(two, "QuantConv"), "y_dtype", "") == "f32");
    Graph exact = graph_with("%y = Conv(%d, %w) layout=\"NHWC\"\n%q = QuantizeLinear(%y, %ys, %yz)\noutput %q");
    exact.keeps_real_quantisation = true;
    CHECK(run_pass(exact, fuse_quantized) == 0);
    CHECK(count_nodes(exact, "Conv") == 1);
  }
}
