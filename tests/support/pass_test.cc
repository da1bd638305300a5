#include "pass_test.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "graph/text.h"
#include "op_test.h"
#include "passes/infer.h"

namespace kiln::test {

Graph read_graph(const std::string& text) {
  Result<Graph> parsed = parse_graph(text);
  INFO(parsed.status().message());
  REQUIRE(parsed.ok());
  std::vector<Problem> problems;
  infer_and_fold(*parsed, builtin_ops(), problems);
  INFO((problems.empty() ? std::string() : problems[0].message));
  REQUIRE(problems.empty());
  return std::move(*parsed);
}

int run_pass(Graph& graph, Result<int> (*pass)(Graph&, const OpRegistry&)) {
  const Result<int> changes = pass(graph, builtin_ops());
  INFO(changes.status().message());
  REQUIRE(changes.ok());
  const Status verified = verify_graph(graph, true);
  INFO(verified.message(), "\n", print_graph(graph));
  REQUIRE(verified.ok());
  Graph again = graph;
  const Status inferred = infer_types(again, builtin_ops());
  INFO(inferred.message());
  REQUIRE(inferred.ok());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    INFO(graph.values[i].name);
    REQUIRE(graph.values[i].shape == again.values[i].shape);
    REQUIRE(graph.values[i].dtype == again.values[i].dtype);
  }
  return changes.value();
}

void expect_same_results(const Graph& before, const Graph& after, uint64_t seed, double tolerance) {
  INFO("seed ", seed);
  std::vector<Tensor> inputs;
  for (ValueId id : before.inputs) {
    inputs.push_back(random_tensor(before.value(id).shape, ++seed, -2, 2, before.value(id).dtype));
  }
  Result<std::vector<Tensor>> expected = evaluate_graph(builtin_ops(), before, inputs);
  Result<std::vector<Tensor>> actual = evaluate_graph(builtin_ops(), after, inputs);
  REQUIRE(expected.ok());
  REQUIRE(actual.ok());
  REQUIRE(expected->size() == actual->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor& e = (*expected)[i];
    const Tensor& a = (*actual)[i];
    REQUIRE(before.value(before.outputs[i]).name == after.value(after.outputs[i]).name);
    REQUIRE(e.dtype() == a.dtype());
    REQUIRE(e.shape() == a.shape());
    double largest = 1;
    double worst = 0;
    for (int64_t k = 0; k < e.num_elements(); ++k) {
      const double x = element_as_f64(e.dtype(), e.data(), k);
      const double y = element_as_f64(a.dtype(), a.data(), k);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      largest = std::max(largest, std::fabs(x));
      worst = std::isnan(x - y) ? INFINITY : std::max(worst, std::fabs(x - y));
    }
    INFO("output ", after.value(after.outputs[i]).name, "\n", print_graph(before), "\n", print_graph(after));
    CHECK(worst <= tolerance * largest);
  }
}

int count_nodes(const Graph& graph, const std::string& op) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == op; }));
}

const Node& only_node(const Graph& graph, const std::string& op) {
  REQUIRE(count_nodes(graph, op) == 1);
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == op; });
}

}  // namespace kiln::test
