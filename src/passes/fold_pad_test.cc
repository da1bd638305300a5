#include "passes/fold_pad.h"

#include <doctest/doctest.h>

#include "pass_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

std::vector<int64_t> pads_of(const Graph& graph, const std::string& op) {
  return attr_ints(only_node(graph, op), "pads");
}

}  // namespace

TEST_CASE("fold_pad_gives_every_reader_its_own_pads") {
  const Graph before = read_graph(R"(
    graph "g" opset 13
    input %x: f32[2, 3, 6, 5]
    const %pads: i64[8] = {0, 0, 0, 1, 0, 0, 2, 3}
    const %w: f32[2, 3, 3, 3] = random(1)
    const %wt: f32[3, 1, 2, 2] = random(2)
    %p = Pad(%x, %pads)
    %a = Conv(%p, %w) auto_pad="VALID" strides=[2, 1] 'first'
    %b = Conv(%p, %wt) group=3 pads=[1, 1, 0, 0] 'second'
    %c = AveragePool(%p) kernel_shape=[2, 3] count_include_pad=1 pads=[1, 2, 0, 0]
    output %a
    output %b
    output %c
  )");
  Graph graph = before;
  CHECK(run_pass(graph, fold_pad) == 1);
  CHECK(count_nodes(graph, "Pad") == 0);
  CHECK(pads_of(graph, "AveragePool") == std::vector<int64_t>{1, 3, 2, 3});
  for (const Node& node : graph.nodes) {
    if (node.name == "first") CHECK(attr_ints(node, "pads") == std::vector<int64_t>{0, 1, 2, 3});
    if (node.name == "second") CHECK(attr_ints(node, "pads") == std::vector<int64_t>{1, 2, 2, 3});
  }
  expect_same_results(before, graph);
}

TEST_CASE("fold_pad_average_that_did_not_count_padding_counts_what_was_data") {
  const Graph before = read_graph(R"(
    graph "g" opset 13
    input %x: f32[1, 2, 4, 4]
    const %pads: i64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
    %p = Pad(%x, %pads)
    %y = AveragePool(%p) kernel_shape=[3, 3]
    output %y
  )");
  Graph graph = before;
  CHECK(run_pass(graph, fold_pad) == 1);
  CHECK(attr_int(only_node(graph, "AveragePool"), "count_include_pad", 0) == 1);
  expect_same_results(before, graph);
}

TEST_CASE("fold_pad_folds_two_in_a_row") {
  const Graph before = read_graph(R"(
    graph "g" opset 18
    input %x: f32[1, 2, 4, 4]
    const %high: i64[2] = {1, 2}
    const %rows: i64[1] = {-2}
    const %wide: i64[8] = {0, 0, 0, 1, 0, 0, 0, 1}
    const %w: f32[2, 2, 3, 3] = random(1)
    %p = Pad(%x, %high, _, %rows)
    %q = Pad(%p, %wide)
    %y = Conv(%q, %w)
    output %y
  )");
  Graph graph = before;
  CHECK(run_pass(graph, fold_pad) == 2);
  CHECK(count_nodes(graph, "Pad") == 0);
  CHECK(pads_of(graph, "Conv") == std::vector<int64_t>{1, 1, 2, 1});
  expect_same_results(before, graph);
}

TEST_CASE("fold_pad_keeps_what_it_must") {
  struct Case {
    const char* what;
    const char* nodes;
  };
  const Case cases[] = {
      {"reader that pads with minus infinity", "%y = MaxPool(%p) kernel_shape=[2, 2]"},
      {"one of two readers cannot", "%a = Conv(%p, %w)\n%y = Relu(%p)\noutput %a"},
      {"padded value is a graph output", "%y = Conv(%p, %w)\noutput %p"},
      {"padding is the weight of a Conv", "%y = Conv(%image, %p)"},
      {"pads become more than a kernel takes", "%y = Conv(%p, %w) pads=[1048576, 0, 0, 0] strides=[600000, 1]"},
      {"auto_pad depends on the size", "%y = Conv(%p, %w) auto_pad=\"SAME_LOWER\""},
      {"average counts its own padding only", "%y = AveragePool(%p) kernel_shape=[2, 2] pads=[0, 0, 1, 1]"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before = read_graph(std::string(R"(
      graph "g" opset 13
      input %x: f32[2, 2, 4, 4]
      input %image: f32[1, 2, 7, 7]
      const %pads: i64[8] = {0, 0, 1, 0, 0, 0, 0, 1}
      const %w: f32[3, 2, 3, 3] = random(1)
      %p = Pad(%x, %pads)
      )") + c.nodes + "\noutput %y\n");
    Graph graph = before;
    CHECK(run_pass(graph, fold_pad) == 0);
    CHECK(count_nodes(graph, "Pad") == 1);
    expect_same_results(before, graph);
  }
}

TEST_CASE("fold_pad_keeps_padding_around_nothing") {
  // Cut to no rows, then padded again: Conv takes the padded value but no input without elements.
  const Graph before = read_graph(R"(
    graph "g" opset 13
    input %x: f32[1, 2, 1, 4]
    const %cut: i64[8] = {0, 0, -1, 0, 0, 0, 0, 0}
    const %grow: i64[8] = {0, 0, 1, 0, 0, 0, 1, 0}
    const %w: f32[2, 2, 2, 2] = random(1)
    const %b: f32[2] = {0.5, -1.0}
    %p = Pad(%x, %cut)
    %q = Pad(%p, %grow)
    %y = Conv(%q, %w, %b)
    output %y
  )");
  Graph graph = before;
  CHECK(run_pass(graph, fold_pad) == 0);
  expect_same_results(before, graph);
}
