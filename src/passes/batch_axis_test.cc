#include "passes/batch_axis.h"

#include <doctest/doctest.h>

#include <string>

#include "pass_test.h"
#include "passes/infer.h"

namespace kiln {
namespace {

// `nodes` lead from %x, f32[4, 6, 5, 5] with the batch in front, to %y.
bool is_independent(const std::string& nodes) {
  Graph graph = test::read_graph(
      "graph \"g\" opset 13\ninput %x: f32[4, 6, 5, 5]\nconst %w: f32[3, 6, 1, 1] = random(1)\n"
      "const %v: f32[150, 7] = random(2)\nconst %m: f32[4, 150] = random(3)\nconst %row: f32[4, 1, 1, 1] = random(4)\n"
      "const %six: f32[6] = random(5)\nconst %first: i64[1] = {0}\nconst %second: i64[1] = {1}\nconst %three: i64[1] = "
      "{3}\nconst %last: i64[1] = "
      "{-1}\n"
      "const %flat: i64[2] = {4, 150}\nconst %free: i64[2] = {-1, 150}\nconst %merged: i64[2] = {24, 25}\n"
      "const %swapped: i64[2] = {6, 100}\n" +
      nodes + "\noutput %y\n");
  std::vector<Problem> problems;
  infer_and_fold(graph, builtin_ops(), problems);
  for (const Problem& problem : problems) FAIL_CHECK(problem.message);
  return rows_are_independent(graph, {graph.inputs[0]});
}

TEST_CASE("batch_axis_of_operators") {
  const struct {
    const char* nodes;
    bool independent;
  } cases[] = {
      {"%y = Relu(%x)", true},
      {"%y = Conv(%x, %w)", true},
      {"%c = Conv(%x, %w)\n%g = GlobalAveragePool(%c)\n%y = Flatten(%g)", true},
      {"%y = Add(%x, %row)", true},
      {"%y = Softmax(%x) axis=1", true},
      {"%y = Softmax(%x) axis=0", false},
      {"%y = Softmax(%x) axis=-4", false},
      {"%y = Softmax@11(%x) axis=1", true},
      {"%y = Softmax@11(%x) axis=0", false},
      {"%y = ReduceMean(%x) axes=[2, 3]", true},
      {"%y = ReduceMean(%x) axes=[0] keepdims=1", false},
      {"%y = ReduceMean(%x)", false},
      {"%y = ArgMax(%x) axis=1 keepdims=0", true},
      {"%y = ArgMax(%x) axis=0", false},
      {"%r = Reshape(%x, %flat)\n%y = MatMul(%r, %v)", true},
      {"%r = Reshape(%x, %free)\n%y = Gemm(%r, %v)", true},
      {"%r = Reshape(%x, %merged)\n%y = Reshape(%r, %flat)", false},
      {"%r = Reshape(%x, %swapped)\n%y = Relu(%r)", false},
      {"%r = Reshape(%x, %flat)\n%t = Transpose(%r) perm=[1, 0]\n%y = Transpose(%t) perm=[1, 0]", true},
      {"%r = Reshape(%x, %flat)\n%y = Transpose(%r) perm=[1, 0]", false},  // the batch is not in front
      {"%r = Reshape(%x, %flat)\n%t = Transpose(%r) perm=[1, 0]\n%y = MatMul(%r, %t)", false},  // attention over rows
      {"%r = Reshape(%x, %flat)\n%t = Transpose(%r) perm=[1, 0]\n%y = MatMul(%t, %m)", false},
      {"%t = Transpose(%x) perm=[0, 1, 3, 2]\n%y = MatMul(%x, %t)", true},  // attention within a row
      {"%t = Transpose(%x) perm=[1, 0, 2, 3]\n%y = Add(%x, %x)", true},
      {"%y = BatchNormalization@15(%x, %six, %six, %six, %six)", true},
      {"%y, %mean, %var = BatchNormalization@15(%x, %six, %six, %six, %six) training_mode=1", false},
      {"%y = Concat(%x, %x) axis=1", true},
      {"%y = Concat(%x, %x) axis=0", false},
      {"%y, %z = Split(%x) axis=1", true},
      {"%y, %z = Split(%x) axis=0", false},
      {"%y = Slice(%x, %first, %three, %second)", true},
      {"%y = Slice(%x, %first, %three, %first)", false},
      {"%y = Slice(%x, %last, %first, %first, %last)", false},
      {"%y = Gather(%x, %first) axis=1", true},
      {"%y = Gather(%x, %first) axis=0", false},
      {"%y = CumSum(%x, %second)", true},
      {"%y = CumSum(%x, %first)", false},
      {"%s = Sigmoid(%x)\n%q = Softmax(%s) axis=0\n%y = Mul(%s, %q)", false},
  };
  for (const auto& c : cases) {
    CAPTURE(c.nodes);
    CHECK(is_independent(c.nodes) == c.independent);
  }
}

TEST_CASE("batch_axis_needs_the_batch_in_every_output") {
  Graph graph = test::read_graph(
      "graph \"g\" opset 13\ninput %x: f32[4, 3]\ninput %p: f32[4, 3]\n%y = Relu(%x)\n%z = Relu(%p)\noutput %y\noutput "
      "%z\n");
  std::vector<Problem> problems;
  infer_and_fold(graph, builtin_ops(), problems);
  CHECK(!rows_are_independent(graph, {graph.inputs[0]}));
  CHECK(rows_are_independent(graph, graph.inputs));
  CHECK(!rows_are_independent(graph, {}));
}

TEST_CASE("batch_axis_sizes_as_arguments_and_as_data") {
  const struct {
    const char* nodes;
    bool meet;
  } cases[] = {
      {"%y = Relu(%x)", false},
      {"%s = Shape(%x)\n%n = Gather(%s, %zero)\n%f = Cast(%n) to=1\n%y = Div(%x, %f)", true},
      {"%s = Size(%x)\n%f = Cast(%s) to=1\n%r = Relu(%x)\n%y = Mul(%f, %r)", true},
      {"%s = Shape(%x)\n%n = Gather(%s, %zeros)\n%c = Concat(%n, %minus) axis=0\n%y = Reshape(%x, %c)", false},
      {"%s = Shape(%x)\n%f = Cast(%s) to=1\n%d = Mul(%f, %f)\n%i = Cast(%d) to=7\n%y = Expand(%x, %i)", false},
      {"%s = Shape(%x)\n%z = ConstantOfShape(%s)\n%y = Add(%x, %z)", true},  // cautious: it is all zeros here
      {"%y = Shape(%x)", true},
  };
  for (const auto& c : cases) {
    CAPTURE(c.nodes);
    const Graph graph = test::read_graph(
        std::string("graph \"g\" opset 13\ninput %x: f32[?, 6]\nconst %zero: i64[] = {0}\nconst %zeros: i64[1] = {0}\n"
                    "const %minus: i64[1] = {-1}\n") +
        c.nodes + "\noutput %y\n");
    CHECK(sizes_meet_data(graph) == c.meet);
  }
}

}  // namespace
}  // namespace kiln
