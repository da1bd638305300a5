#include "passes/fold_batch_norm.h"

#include <doctest/doctest.h>

#include "pass_test.h"
#include "passes/lower_batch_norm.h"

using namespace kiln;
using namespace kiln::test;

namespace {

struct Case {
  const char* what;
  const char* nodes;
};

// Four channels on an image of four columns, so that a constant on the wrong axis fits as well.
Graph graph_with(const char* nodes) {
  return read_graph(std::string(R"(
    graph "g" opset 14
    input %x: f32[2, 4, 3, 4]
    input %runtime: f32[4]
    const %w: f32[4, 4, 1, 1] = random(1)
    const %w2: f32[4, 2, 2, 2] = random(2)
    const %bias: f32[4] = random(3)
    const %g: f32[4] = random(4, 0.5, 2.0)
    const %o: f32[4] = random(5)
    const %m: f32[4] = random(6)
    const %v: f32[4] = random(7, 0.5, 2.0)
  )") + nodes + "\noutput %y\n");
}

}  // namespace

TEST_CASE("fold_batch_norm_shared_conv_stays_as_it_is") {
  // Conv(w = 2, b = 1), then BatchNormalization(3, 5, 1, 4); the Add reads the convolution too: [1, 2] gives
  // [11, 16].
  Graph graph = read_graph(R"(
    graph "g" opset 13
    input %x: f32[1, 1, 1, 2]
    const %w: f32[1, 1, 1, 1] = {2.0}
    const %b: f32[1] = {1.0}
    const %scale: f32[1] = {3.0}
    const %shift: f32[1] = {5.0}
    const %mean: f32[1] = {1.0}
    const %var: f32[1] = {4.0}
    %conv = Conv(%x, %w, %b)
    %norm = BatchNormalization(%conv, %scale, %shift, %mean, %var) epsilon=0.0
    %y = Add(%norm, %conv)
    output %y
  )");
  CHECK(run_pass(graph, fold_batch_norm) == 0);
  CHECK(run_pass(graph, lower_batch_norm) == 1);
  CHECK(count_nodes(graph, "BatchNormalization") == 0);
  Tensor x(DType::kF32, Shape{1, 1, 1, 2});
  x.as<float>()[0] = 1;
  x.as<float>()[1] = 2;
  Result<std::vector<Tensor>> y = evaluate_graph(builtin_ops(), graph, std::span<const Tensor>(&x, 1));
  REQUIRE(y.ok());
  CHECK((*y)[0].as<float>()[0] == 11.0f);
  CHECK((*y)[0].as<float>()[1] == 16.0f);
}

TEST_CASE("fold_batch_norm_folds") {
  const Case cases[] = {
      {"no bias", "%c = Conv(%x, %w)\n%y = BatchNormalization(%c, %g, %o, %m, %v)"},
      {"bias, groups", "%c = Conv(%x, %w2, %bias) group=2\n%y = BatchNormalization(%c, %g, %o, %m, %v) epsilon=0.1"},
      {"opset 7 with is_test left out", "%c = Conv(%x, %w)\n%y = BatchNormalization@7(%c, %g, %o, %m, %v)"},
      {"constant first", "%k = Reshape(%o, %shape)\n%c = Conv(%x, %w)\n%y = Mul(%k, %c)"},
      {"one number of rank 4", "%k = Reshape(%one, %ones)\n%c = Conv(%x, %w, %bias)\n%y = Sub(%c, %k)"},
      {"division", "%k = Reshape(%g, %shape)\n%c = Conv(%x, %w, %bias)\n%y = Div(%c, %k)"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before = graph_with((std::string("const %shape: i64[3] = {4, 1, 1}\nconst %ones: i64[4] = splat(1)\n"
                                                 "const %one: f32[1] = {0.7}\n") +
                                     c.nodes)
                                        .c_str());
    Graph graph = before;
    CHECK(run_pass(graph, fold_batch_norm) == 1);
    CHECK(graph.nodes.size() == 1);
    expect_same_results(before, graph);
  }
}

TEST_CASE("fold_batch_norm_keeps_what_it_must") {
  const Case cases[] = {
      {"a row of columns is no row of channels", "%c = Conv(%x, %w)\n%y = Mul(%c, %g)"},
      {"bias of the convolution is computed",
       "%c = Conv(%x, %w, %runtime)\n%y = BatchNormalization(%c, %g, %o, %m, %v)"},
      {"statistics are computed", "%c = Conv(%x, %w)\n%y = BatchNormalization(%c, %g, %o, %m, %runtime)"},
      {"training", "%c = Conv(%x, %w)\n%y, %a, %b = BatchNormalization(%c, %g, %o, %m, %v) training_mode=1"},
      {"activation in between",
       "%c = Conv(%x, %w) activation=\"Sigmoid\"\n%y = BatchNormalization(%c, %g, %o, %m, %v)"},
      {"residual in between",
       "%c = Conv(%x, %w, _, %x) residual=\"before_activation\"\n%y = BatchNormalization(%c, %g, %o, %m, "
       "%v)"},
      {"output of the convolution is one of the graph",
       "%c = Conv(%x, %w)\n%y = BatchNormalization(%c, %g, %o, %m, %v)\noutput %c"},
      {"read twice", "%c = Conv(%x, %w)\n%n = BatchNormalization(%c, %g, %o, %m, %v)\n%y = Add(%n, %c)"},
      {"constant makes the output larger",
       "%z = ReduceMean(%x) axes=[2, 3]\n%c = Conv(%z, %w)\n%k = Expand(%one, %wide)\n%y = Add(%c, %k)"},
      {"constant has more channels", "%c = Conv(%x, %w1)\n%k = Reshape(%o, %four)\n%y = Add(%c, %k)"},
      {"constant divided by the convolution", "%c = Conv(%x, %w)\n%y = Div(%one, %c)"},
      {"division by zero", "%c = Conv(%x, %w)\n%y = Div(%c, %none)"},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const Graph before =
        graph_with((std::string("const %one: f32[1] = {0.7}\nconst %none: f32[] = {0.0}\n"
                                "const %w1: f32[1, 4, 1, 1] = random(8)\nconst %four: i64[3] = {4, 1, 1}\n"
                                "const %wide: i64[4] = {1, 1, 2, 1}\n") +
                    c.nodes)
                       .c_str());
    Graph graph = before;
    CHECK(run_pass(graph, fold_batch_norm) == 0);
    CHECK(graph.nodes.size() == before.nodes.size());
    expect_same_results(before, graph);
  }
}

TEST_CASE("fold_batch_norm_gives_each_group_of_a_transposed_conv_its_channels") {
  const Graph before = graph_with("%c = ConvTranspose(%x, %w2) group=2\n%y = BatchNormalization(%c, %g, %o, %m, %v)");
  Graph graph = before;
  CHECK(run_pass(graph, fold_batch_norm) == 1);
  expect_same_results(before, graph);
}

TEST_CASE("fold_batch_norm_rounds_once") {
  // mean * scale is 1e8 / 3, where floats are 2 apart; computed in double the bias 1 survives in the
  // difference.
  Graph graph = read_graph(R"(
    graph "g" opset 13
    input %x: f32[1, 1, 1, 1]
    const %w: f32[1, 1, 1, 1] = {1.0}
    const %b: f32[1] = {100000000.0}
    const %scale: f32[1] = {1.0}
    const %shift: f32[1] = {1.0}
    const %mean: f32[1] = {100000000.0}
    const %var: f32[1] = {9.0}
    %c = Conv(%x, %w, %b)
    %y = BatchNormalization(%c, %scale, %shift, %mean, %var) epsilon=0.0
    output %y
  )");
  CHECK(run_pass(graph, fold_batch_norm) == 1);
  const Tensor& bias = *graph.value(graph.nodes[0].inputs[2]).constant;
  CHECK(bias.as<float>()[0] == doctest::Approx(1.0).epsilon(1e-6));
}
