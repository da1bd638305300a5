// name_activations, lower_arithmetic, fuse_activation and fuse_residual together: what has to become one
// node, and what has not.
#include <doctest/doctest.h>

#include "pass_test.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_residual.h"
#include "passes/lower_arithmetic.h"
#include "passes/name_activations.h"

using namespace kiln;
using namespace kiln::test;

namespace {

struct Case {
  const char* what;
  const char* nodes;  // from %c to %y
};

constexpr const char* kHead = R"(
    graph "g" opset 17
    input %x: f32[1, 3, 4, 4]
    input %other: f32[1, 3, 4, 4]
    const %w: f32[3, 3, 1, 1] = random(1)
    const %three: f32[] = {3.0}
    const %zero: f32[] = {0.0}
    const %six: f32[1] = {6.0}
    const %sixth: f32[1, 1, 1, 1] = {0.16666667}
    const %tenth: f32[] = {0.1}
    const %two: f32[] = {2.0}
    const %slopes: f32[3, 1, 1] = {0.1, 0.2, 0.1}
)";

Graph graph_with(const char* nodes) { return read_graph(std::string(kHead) + nodes + "\noutput %y\n"); }

void fuse(Graph& graph) {
  run_pass(graph, name_activations);
  run_pass(graph, lower_arithmetic);
  run_pass(graph, fuse_activation);
  run_pass(graph, fuse_residual);
}

}  // namespace

TEST_CASE("activations_become_part_of_the_conv") {
  const std::string hard = "%p = Add(%c, %three)\n%q = Clip(%p, %zero, %six)\n";
  const std::string swapped = "%p = Add(%three, %c)\n%r = Relu(%p)\n%q = Min(%six, %r)\n";
  const std::pair<std::string, const char*> cases[] = {
      {"%y = Relu(%c)", "Clip"},
      {"%y = Clip(%c, %zero, %six)", "Clip"},
      {"%y = Clip(%c, _, %six)", "Clip"},
      {"%y = Clip(%c, %three)", "Clip"},
      {"%y = Clip@6(%c) max=6.0 min=0.0", "Clip"},
      {"%p = Relu(%c)\n%y = Min(%p, %six)", "Clip"},
      {"%p = Max(%zero, %c)\n%y = Clip(%p, _, %six)", "Clip"},
      {"%y = LeakyRelu(%c)", "LeakyRelu"},
      {"%y = PRelu(%c, %tenth)", "LeakyRelu"},
      {"%y = Sigmoid(%c)", "Sigmoid"},
      {"%y = Tanh(%c)", "Tanh"},
      {"%y = HardSigmoid(%c)", "HardSigmoid"},
      {"%y = HardSwish(%c)", "HardSwish"},
      {"%s = Sigmoid(%c)\n%y = Mul(%c, %s)", "Silu"},
      {"%s = Sigmoid(%c)\n%y = Mul(%s, %c)", "Silu"},
      {hard + "%y = Div(%q, %six)", "HardSigmoid"},
      {swapped + "%y = Mul(%sixth, %q)", "HardSigmoid"},
      {hard + "%m = Mul(%c, %q)\n%y = Div(%m, %six)", "HardSwish"},
      {hard + "%m = Mul(%q, %c)\n%y = Mul(%m, %sixth)", "HardSwish"},
      {hard + "%m = Div(%q, %six)\n%y = Mul(%c, %m)", "HardSwish"},
      {swapped + "%m = Mul(%q, %sixth)\n%y = Mul(%m, %c)", "HardSwish"},
      {"%m = HardSigmoid(%c) alpha=0.16666667\n%y = Mul(%c, %m)", "HardSwish"},
  };
  for (const auto& [text, kind] : cases) {
    const std::string nodes = text;
    INFO(nodes);
    const Graph before = graph_with(("%c = Conv(%x, %w)\n" + nodes).c_str());
    Graph graph = before;
    fuse(graph);
    REQUIRE(graph.nodes.size() == 1);
    CHECK(attr_string(graph.nodes[0], "activation", "") == kind);
    expect_same_results(before, graph);
  }
}

TEST_CASE("activations_that_are_not_quite_these_stay") {
  const Case cases[] = {
      {"gate of something else", "%c = Conv(%x, %w)\n%s = Sigmoid(%other)\n%y = Mul(%c, %s)"},
      {"Clip to 0..3",
       "%c = Conv(%x, %w)\n%p = Add(%c, %three)\n%q = Clip(%p, %zero, %three)\n%m = Mul(%c, %q)\n%y = "
       "Div(%m, %six)"},
      {"plus 2",
       "%c = Conv(%x, %w)\n%p = Add(%c, %two)\n%q = Clip(%p, %zero, %six)\n%m = Mul(%c, %q)\n%y = Div(%m, "
       "%six)"},
      {"HardSigmoid of another slope", "%c = Conv(%x, %w)\n%m = HardSigmoid(%c)\n%y = Mul(%c, %m)"},
      {"slope a channel", "%c = Conv(%x, %w)\n%y = PRelu(%c, %slopes)"},
      {"gate that is read elsewhere", "%c = Conv(%x, %w)\n%s = Sigmoid(%c)\n%m = Mul(%c, %s)\n%y = Sub(%m, %s)"},
      {"bounds the wrong way round", "%c = Conv(%x, %w)\n%y = Clip(%c, %three, %zero)"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before = graph_with(c.nodes);
    Graph graph = before;
    fuse(graph);
    CHECK(graph.nodes.size() > 1);
    CHECK_FALSE(has_attr(only_node(graph, "Conv"), "activation"));
    CHECK(count_nodes(graph, "Silu") + count_nodes(graph, "HardSwish") == 0);
    expect_same_results(before, graph);
  }
}

TEST_CASE("residuals_become_part_of_the_conv") {
  struct Residual {
    const char* nodes;
    const char* residual;
    const char* activation;
  };
  const Residual cases[] = {
      {"%c = Conv(%x, %w)\n%y = Add(%c, %other)", "before_activation", ""},
      {"%c = Conv(%x, %w)\n%y = Add(%other, %c)", "before_activation", ""},
      {"%c = Conv(%x, %w)\n%y = Sum(%c, %other)", "before_activation", ""},
      {"%c = Conv(%x, %w)\n%s = Add(%x, %c)\n%y = Relu(%s)", "before_activation", "Clip"},
      {"%c = Conv(%x, %w)\n%s = Sum(%x, %c)\n%g = Sigmoid(%s)\n%y = Mul(%s, %g)", "before_activation", "Silu"},
      {"%c = Conv(%x, %w)\n%a = Relu(%c)\n%y = Add(%a, %other)", "after_activation", "Clip"},
      {"%c = Conv(%x, %w)\n%g = Sigmoid(%c)\n%a = Mul(%g, %c)\n%y = Add(%x, %a)", "after_activation", "Silu"},
  };
  for (const Residual& c : cases) {
    INFO(c.nodes);
    const Graph before = graph_with(c.nodes);
    Graph graph = before;
    fuse(graph);
    REQUIRE(graph.nodes.size() == 1);
    CHECK(graph.nodes[0].inputs.size() == 4);
    CHECK(attr_string(graph.nodes[0], "residual", "") == c.residual);
    CHECK(attr_string(graph.nodes[0], "activation", "") == c.activation);
    expect_same_results(before, graph);
  }
}

TEST_CASE("residuals_make_no_cycle_and_wait_for_their_producer") {
  // Each input of the Add is a Conv, and the residual of the first depends on nothing of the second: either
  // may take the other. In the second graph the residual is made after the Conv in node order and must come
  // first.
  const Case cases[] = {
      {"two convolutions in a row", "%a = Conv(%x, %w)\n%r = Relu(%a)\n%b = Conv(%r, %w)\n%y = Add(%b, %a)"},
      {"residual made later",
       "%a = Conv(%x, %w)\n%b = MaxPool(%x) kernel_shape=[1, 1]\n%d = Tanh(%b)\n%y = Add(%a, %d)"},
      {"residual reads what the Conv reads", "%t = Tanh(%x)\n%a = Conv(%t, %w)\n%b = Neg(%t)\n%y = Add(%b, %a)"},
      {"chain of sums", "%a = Conv(%x, %w)\n%b = Conv(%x, %w)\n%s = Add(%a, %b)\n%d = Conv(%s, %w)\n%y = Add(%d, %s)"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before = graph_with(c.nodes);
    Graph graph = before;
    run_pass(graph, fuse_residual);
    CHECK(count_nodes(graph, "Add") == 0);
    expect_same_results(before, graph);
  }
}

TEST_CASE("lower_arithmetic_keeps_the_bits") {
  // Division by 3 has no exact reciprocal; powers of two that leave the range of normal floats neither.
  const Graph before = read_graph(R"(
    graph "g" opset 17
    input %x: f32[1, 2]
    input %n: i32[2]
    const %quarter: f32[2] = {0.25, -8.0}
    const %mixed: f32[2] = {0.25, 3.0}
    const %tiny: f32[] = {1.0e-38}
    const %four: i32[] = {4}
    %a = Div(%x, %quarter)
    %b = Div(%x, %mixed)
    %c = Div(%x, %tiny)
    %d = Div(%n, %four)
    output %a
    output %b
    output %c
    output %d
  )");
  Graph graph = before;
  CHECK(run_pass(graph, lower_arithmetic) == 1);
  CHECK(count_nodes(graph, "Mul") == 1);
  CHECK(count_nodes(graph, "Div") == 3);
  expect_same_results(before, graph, 1, 0);
}

TEST_CASE("lower_arithmetic_makes_pools_of_both_spatial_axes_only") {
  const std::pair<const char*, int> cases[] = {
      {"%y = ReduceMean(%x) axes=[2, 3]", 1},
      {"%y = ReduceMean(%x) axes=[-1, 2]", 1},
      {"%y = ReduceMean(%x) axes=[3, -2] keepdims=0", 1},
      {"%y = ReduceMean(%x) axes=[1, 2]", 0},
      {"%y = ReduceMean(%x) axes=[2]", 0},
      {"%y = ReduceMean(%x)", 0},
      {"%y = ReduceSum@11(%x) axes=[2, 3]", 0},
  };
  for (const auto& [text, pools] : cases) {
    const char* nodes = text;
    INFO(nodes);
    const Graph before = graph_with(nodes);
    Graph graph = before;
    CHECK(run_pass(graph, lower_arithmetic) == pools);
    CHECK(count_nodes(graph, "GlobalAveragePool") == pools);
    expect_same_results(before, graph);
  }
}
