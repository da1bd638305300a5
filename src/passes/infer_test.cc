#include "passes/infer.h"

#include <doctest/doctest.h>

#include "graph/text.h"

namespace kiln {
namespace {

Graph read(const char* text) {
  Result<Graph> graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.status().message());
  return std::move(*graph);
}

std::vector<Problem> infer(Graph& graph, std::vector<Problem> problems = {}) {
  infer_and_fold(graph, builtin_ops(), problems);
  return problems;
}

const Value& named(const Graph& graph, const char* name) {
  for (const Value& value : graph.values) {
    if (value.name == name) return value;
  }
  FAIL("no value ", name);
  return graph.values[0];
}

}  // namespace

TEST_CASE("inference_goes_on_after_a_problem_and_reports_each_once") {
  Graph graph = read(R"(graph "g" opset 13
input %x: f32[1, 4, 2, 2]
%a = Nope(%x) 'first'
%b = Relu(%a) 'behind the first'
%c = Nope(%b) 'unknown wherever it stands'
%d = Softmax(%x) axis=7 'by itself'
%e = Add(%d, %x) 'behind that'
%f = Relu(%x) 'fine'
output %c
output %e
output %f
)");
  const std::vector<Problem> problems = infer(graph);
  REQUIRE(problems.size() == 3);
  CHECK(problems[0].node == "first");
  CHECK(problems[0].code == Code::kUnknownOperator);
  CHECK(problems[1].node == "unknown wherever it stands");
  CHECK(problems[2].node == "by itself");
  CHECK(problems[2].code == Code::kInvalidModel);
  CHECK(named(graph, "f").dtype == DType::kF32);
  CHECK(named(graph, "e").dtype == DType::kInvalid);
}

TEST_CASE("nodes_that_a_problem_names_already_are_passed_over") {
  Graph graph = read(R"(graph "g" opset 13
input %x: f32[1]
%a = Nope(%x) 'known'
output %a
)");
  Problem known;
  known.node = "known";
  CHECK(infer(graph, {known}).size() == 1);
}

TEST_CASE("growth_folds_only_where_a_constant_is_needed") {
  // Reshape must have its shape as a constant, however it was made; Add does without.
  Graph graph = read(R"(graph "g" opset 13
input %x: f32[1, 600000]
const %one: f32[1] = {1}
const %size: i64[2] = {1, 600000}
%e = Expand(%one, %size) 'large'
%y = Add(%x, %e) 'add'
output %y
)");
  CHECK(infer(graph).empty());
  CHECK(graph.nodes.size() == 2);
  CHECK(named(graph, "e").constant == nullptr);
  CHECK(named(graph, "e").shape == Shape{1, 600000});

  Graph weights = read(R"(graph "g" opset 13
input %x: f32[1, 600, 1, 1]
const %one: f32[1] = {1}
const %size: i64[4] = {600, 600, 1, 1}
%w = Expand(%one, %size) 'large'
%y = Conv(%x, %w) 'conv'
output %y
)");
  CHECK(infer(weights).empty());
  REQUIRE(weights.nodes.size() <= 2);
  // Whether Conv takes weights at run time is the operator's to say; if not, they must have been folded.
  if (weights.nodes.size() == 1) CHECK(named(weights, "w").constant != nullptr);
}

TEST_CASE("a_constant_too_large_to_fold_stays_a_node") {
  Graph graph = read(R"(graph "g" opset 13
const %one: f32[1] = {1}
const %size: i64[2] = {5000, 5000}
%e = Expand(%one, %size) 'beyond 64 MiB'
output %e
)");
  CHECK(infer(graph).empty());
  REQUIRE(graph.nodes.size() == 1);
  CHECK(graph.nodes[0].name == "beyond 64 MiB");
}

TEST_CASE("infer_types_gives_every_type_without_folding") {
  Graph graph = read(R"(graph "g" opset 13
input %x: f32[2, 3]
%s = Shape(%x)
const %p: f32[2, 3] = splat(1)
%a = Add(%x, %p)
output %s
output %a
)");
  REQUIRE(infer_types(graph, builtin_ops()).ok());
  CHECK(graph.nodes.size() == 2);
  CHECK(named(graph, "s").dtype == DType::kI64);
  CHECK(named(graph, "a").shape == Shape{2, 3});
  graph.nodes[1].op = "Nope";
  CHECK(infer_types(graph, builtin_ops()).code() == Code::kUnknownOperator);
}

TEST_CASE("a_dequantized_constant_remembers_its_integers") {
  Graph graph = read(R"(graph "g" opset 13
input %x: f32[2, 3]
const %q: i8[2, 3] = {1, 2, 3, 4, 5, 6}
const %scale: f32[2] = {0.5, 2}
const %zero: i8[2] = {0, 1}
const %order: i64[3] = {3, 1, 2}
%f = DequantizeLinear(%q, %scale, %zero) axis=-2
%i = Identity(%f)
%t = Transpose(%i) perm=[1, 0]
%r = Reshape(%t, %order)
%y = MatMul(%x, %t)
%z = Relu(%r)
output %y
output %z
output %f
)");
  CHECK(infer(graph).empty());
  const Value& f = named(graph, "f");
  REQUIRE(f.quantized != nullptr);
  CHECK(f.quantized->axis == 0);
  CHECK(f.quantized->values == named(graph, "q").constant);
  CHECK(f.quantized->scale == named(graph, "scale").constant);
  CHECK(f.quantized->zero_point == named(graph, "zero").constant);
  CHECK(f.constant->as<float>()[1] == 1.0f);
  CHECK(f.constant->as<float>()[3] == 6.0f);
  const Value& t = named(graph, "t");
  REQUIRE(t.quantized != nullptr);
  CHECK(t.quantized->axis == 1);
  CHECK(t.quantized->values->shape() == Shape{3, 2});
  const std::vector<int> expected = {1, 4, 2, 5, 3, 6};
  for (size_t i = 0; i < expected.size(); ++i) CHECK(t.quantized->values->as<int8_t>()[i] == expected[i]);
  const Value& r = named(graph, "r");
  REQUIRE(r.quantized != nullptr);
  CHECK(r.quantized->axis == 2);
  CHECK(r.quantized->values->shape() == Shape{3, 1, 2});
  CHECK(named(graph, "z").quantized == nullptr);
}

TEST_CASE("integers_are_forgotten_where_they_no_longer_fit") {
  Graph graph = read(R"(graph "g" opset 13
const %q: i8[2, 3] = {1, 2, 3, 4, 5, 6}
const %wide: i32[2] = {1, 2}
const %scale: f32[2] = {0.5, 2}
const %one: f32[1] = {0.5}
const %flat: i64[1] = {6}
%f = DequantizeLinear(%q, %scale) axis=0
%r = Reshape(%f, %flat)
%g = DequantizeLinear(%q, %one)
%s = Reshape(%g, %flat)
%b = DequantizeLinear(%wide, %one)
output %r
output %s
output %b
)");
  CHECK(infer(graph).empty());
  CHECK(named(graph, "r").quantized == nullptr);
  REQUIRE(named(graph, "s").quantized != nullptr);
  CHECK(named(graph, "s").quantized->zero_point == nullptr);
  CHECK(named(graph, "b").quantized == nullptr);
}

}  // namespace kiln
