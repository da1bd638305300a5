#include "passes/drop_identity.h"

#include <doctest/doctest.h>

#include "pass_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

struct Case {
  const char* what;
  const char* nodes;
};

Graph graph_with(const char* nodes) {
  return read_graph(std::string(R"(
    graph "g" opset 18
    input %x: f32[2, 2, 2, 2]
    input %i: i32[3]
    const %ones: i64[4] = splat(1)
    const %zero: f32[] = {0.0}
    const %izero: i32[1] = {0}
    const %ione: i32[] = {1}
    const %none: f32[0] = {}
    const %sizes: i64[4] = {2, 2, 2, 2}
    const %scales: f32[4] = {1.0, 1.0, 1.0, 1.0}
    const %roi: f32[8] = {0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.5, 1.0}
    const %start: i64[1] = {-1}
    const %end: i64[1] = {-9223372036854775807}
    const %axis: i64[1] = {3}
    const %step: i64[1] = {-1}
  )") + nodes + "\noutput %y\n");
}

}  // namespace

TEST_CASE("drop_identity_drops") {
  const Case cases[] = {
      {"integers", "%a = Add(%izero, %i)\n%b = Mul(%a, %ione)\n%y = Neg(%b)"},
      {"Resize to the size it has", "%a = Resize(%x, _, _, %sizes) mode=\"linear\"\n%y = Relu(%a)"},
      {"Resize with empty roi and scales 1", "%a = Resize(%x, %none, %scales) mode=\"cubic\"\n%y = Relu(%a)"},
      {"Squeeze after Unsqueeze", "%b = Flatten(%x) axis=1\n%a = Flatten(%b) axis=1\n%y = Neg(%a)\noutput %b"},
      {"between an operator and an output", "%a = Relu(%x)\n%y = Identity(%a)"},
      {"copy of an output with another name", "%b = Relu(%x)\n%a = Identity(%b)\n%y = Neg(%a)\noutput %b"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before = graph_with(c.nodes);
    Graph graph = before;
    CHECK(run_pass(graph, drop_identity) > 0);
    CHECK(count_nodes(graph, "Identity") + count_nodes(graph, "Add") + count_nodes(graph, "Resize") == 0);
    CHECK(count_nodes(graph, "Flatten") <= 1);
    expect_same_results(before, graph);
  }
}

TEST_CASE("drop_identity_keeps_what_moves_elements_or_has_to_have_two_names") {
  const Case cases[] = {
      {"input to output", "%y = Identity(%x)"},
      {"reversed", "%a = Slice(%x, %start, %end, %axis, %step)\n%y = Relu(%a)"},
      {"square that turns", "%a = Transpose(%x) perm=[0, 1, 3, 2]\n%y = Relu(%a)"},
      {"no perm reverses", "%a = Transpose(%x)\n%y = Relu(%a)"},
      {"crop that has the size of its input",
       "%a = Resize(%x, %roi, _, %sizes) coordinate_transformation_mode=\"tf_crop_and_resize\" "
       "mode=\"linear\"\n"
       "%y = Relu(%a)"},
      {"two names for one value", "%b = Relu(%x)\n%y = Identity(%b)\noutput %b"},
      {"activation is fused", "%a = Relu(%x)\n%b = Add(%a, %zero) activation=\"Tanh\"\n%y = Neg(%b)"},
      {"another dtype of the same size", "%a = Cast(%x) to=6\n%y = Abs(%a)"},
      {"two inputs", "%b = Relu(%x)\n%a = Max(%x, %b)\n%y = Relu(%a)"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before = graph_with(c.nodes);
    Graph graph = before;
    CHECK(run_pass(graph, drop_identity) == 0);
    CHECK(graph.nodes.size() == before.nodes.size());
    expect_same_results(before, graph);
  }
}
