// cse and dce.
#include "passes/cse.h"

#include <doctest/doctest.h>

#include "graph/text.h"
#include "pass_test.h"
#include "passes/dce.h"
#include "passes/infer.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// As read_graph, but nodes of constants stay nodes.
Graph parse_and_infer(const std::string& text) {
  Result<Graph> graph = parse_graph(text);
  REQUIRE(graph.ok());
  REQUIRE(infer_types(*graph, builtin_ops()).ok());
  return std::move(*graph);
}

}  // namespace

TEST_CASE("cse_merges_chains_of_equal_nodes_with_equal_constants") {
  const Graph before = read_graph(R"(
    graph "g" opset 13
    input %x: f32[1, 2, 4, 4]
    const %w1: f32[2, 2, 1, 1] = random(1)
    const %w2: f32[2, 2, 1, 1] = random(1)
    const %begin1: i64[1] = {1}
    const %begin2: i64[1] = {1}
    const %end: i64[1] = {3}
    %a = Conv(%x, %w1) pads=[0, 0, 0, 0] 'first'
    %b = Conv(%x, %w2) pads=[0, 0, 0, 0] 'second'
    %c = Slice(%a, %begin1, %end)
    %d = Slice(%b, %begin2, %end)
    %e, %f = Split(%c) axis=2
    %g, %h = Split(%d) axis=2
    %s = Sub(%e, %h)
    %t = Sub(%g, %f)
    %y = Mul(%s, %t)
    output %y
  )");
  Graph graph = before;
  CHECK(run_pass(graph, cse) == 2 + 4);  // constants and nodes
  CHECK(graph.nodes.size() == 5);
  expect_same_results(before, graph);
}

TEST_CASE("cse_keeps_apart_what_differs_in_anything") {
  // Pairs that differ in one thing each; no output of them is one of the graph, so that they could be merged.
  const char* pairs[] = {
      "%a = LeakyRelu(%x) alpha=0.1\n%b = LeakyRelu(%x) alpha=0.2",
      "%a = LeakyRelu(%x) alpha=0.01\n%b = LeakyRelu(%x)",
      "%a = Softmax@11(%x) axis=0\n%b = Softmax(%x) axis=0",
      "%a = Transpose(%x) perm=[0, 1]\n%b = Transpose(%x) perm=[1, 0]",
      "%a = Pad(%x, %pads) mode=\"edge\"\n%b = Pad(%x, %pads) mode=\"reflect\"",
      "%a = Sub(%x, %z)\n%b = Sub(%z, %x)",
      "%a = Relu(%x)\n%b = Relu(%z)",
      "%a = Relu(%x)\n%b = Tanh(%x)",
      "%a = Clip(%x, %zero)\n%b = Clip(%x, _, %zero)",
      "%a = Div(%x, %zero)\n%b = Div(%x, %minus)",
      "%a = Add(%x, %row)\n%b = Add(%x, %column)",
      "%a = Identity(%bits)\n%b = Identity(%zero)",
  };
  for (const char* pair : pairs) {
    INFO(pair);
    const Graph before = parse_and_infer(std::string(R"(
      graph "g" opset 13
      input %x: f32[2, 2]
      input %z: f32[2, 2]
      const %pads: i64[4] = {1, 0, 0, 1}
      const %zero: f32[] = {0.0}
      const %minus: f32[] = {-0.0}
      const %row: f32[1, 2] = {1.0, 2.0}
      const %column: f32[2, 1] = {1.0, 2.0}
      const %bits: i32[] = {0}
    )") + pair + "\n%c = Abs(%a)\n%d = Abs(%b)\noutput %c\noutput %d\n");
    Graph graph = before;
    CHECK(run_pass(graph, cse) == 0);
    CHECK(graph.nodes.size() == before.nodes.size());
  }
}

TEST_CASE("cse_keeps_the_names_of_two_equal_outputs") {
  const Graph before = read_graph(R"(
    graph "g" opset 13
    input %x: f32[2, 2]
    %a = Relu(%x)
    %b = Relu(%x)
    %c = Relu(%x)
    %d = Neg(%c)
    output %a
    output %b
    output %d
  )");
  Graph graph = before;
  CHECK(run_pass(graph, cse) == 1);
  CHECK(count_nodes(graph, "Relu") == 2);
  expect_same_results(before, graph);
}

TEST_CASE("dce_drops_chains_and_keeps_nodes_with_one_output_that_is_read") {
  const Graph before = read_graph(R"(
    graph "g" opset 13
    input %x: f32[4, 2]
    input %unread: f32[1]
    %a, %b = Split(%x)
    %c, %d = Split(%a)
    %e = Relu(%c)
    %f = Neg(%e)
    %g = Add(%f, %unread)
    %y = Tanh(%b)
    output %y
  )");
  Graph graph = before;
  CHECK(run_pass(graph, dce) == 4);
  CHECK(graph.nodes.size() == 2);
  CHECK(graph.inputs.size() == 2);
  CHECK(only_node(graph, "Split").outputs.size() == 2);
  CHECK(graph.values.size() == 5);  // inputs, two of Split, y
  expect_same_results(before, graph);
}
