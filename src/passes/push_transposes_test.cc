#include <doctest/doctest.h>

#include <algorithm>

#include "op_test.h"
#include "pass_test.h"
#include "passes/infer.h"
#include "passes/min_cut.h"
#include "passes/nhwc_layout.h"
#include "passes/perm.h"
#include "passes/pipeline.h"
#include "passes/push_transposes.h"
#include "passes/reshape_axes.h"
#include "soak.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  int below(int n) {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<int>((z ^ (z >> 31)) % static_cast<uint64_t>(n));
  }
  bool one_in(int n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// Grows a graph of operators that layouts go through, a random one at a time on random values.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed), seed_(seed) {
    for (int i = 0; i < 2; ++i) {
      const ValueId id = graph_.add_value("input" + std::to_string(i), DType::kF32, {1 + random_.below(2), 4, 3, 2});
      graph_.inputs.push_back(id);
      values_.push_back(id);
    }
  }

  Graph make(int num_nodes) {
    for (int i = 0; i < num_nodes; ++i) add_random();
    // The last values are outputs, and one from the middle.
    for (size_t i = values_.size() - 3; i < values_.size(); ++i) add_output(values_[i]);
    add_output(values_[values_.size() / 2]);
    return std::move(graph_);
  }

 private:
  Shape shape_of(ValueId id) { return graph_.value(id).shape; }
  std::string next_name() { return "v" + std::to_string(graph_.values.size()); }
  void add_output(ValueId id) {
    const auto& outputs = graph_.outputs;
    if (std::find(outputs.begin(), outputs.end(), id) == outputs.end()) graph_.outputs.push_back(id);
  }

  ValueId floats(const Shape& shape) { return graph_.add_constant(next_name(), random_tensor(shape, ++seed_)); }
  ValueId ints(const std::vector<int64_t>& values) {
    return graph_.add_constant(next_name(), make_i64_vector(values.data(), static_cast<int>(values.size())));
  }

  // Adds the node if it is a valid one.
  void add(const char* op, const std::vector<ValueId>& inputs, std::map<std::string, Attr> attrs = {}, int outputs = 1,
           int opset = 13) {
    Node node;
    node.op = op;
    node.opset = opset;
    node.name = next_name();
    node.inputs = inputs;
    node.attrs = std::move(attrs);
    for (int i = 0; i < outputs; ++i) node.outputs.push_back(graph_.add_value(next_name()));
    const Inference inference = infer_node(builtin_ops(), graph_, node);
    bool is_small = inference.ok();
    for (int i = 0; is_small && i < outputs; ++i) {
      const Shape& shape = inference.outputs[static_cast<size_t>(i)].shape;
      is_small = shape.num_elements() > 0 && shape.num_elements() <= 2000 && shape.rank <= 5;
    }
    if (!is_small) {
      graph_.values.resize(graph_.values.size() - static_cast<size_t>(outputs));
      return;
    }
    for (int i = 0; i < outputs; ++i) {
      Value& value = graph_.value(node.outputs[static_cast<size_t>(i)]);
      value.dtype = inference.outputs[static_cast<size_t>(i)].dtype;
      value.shape = inference.outputs[static_cast<size_t>(i)].shape;
      if (value.dtype == DType::kF32) values_.push_back(node.outputs[static_cast<size_t>(i)]);
    }
    graph_.nodes.push_back(std::move(node));
  }

  // Mostly one of the last values, so that chains get long.
  ValueId pick() {
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(random_.one_in(4) ? random_.below(n) : n - 1 - random_.below(std::min(n, 3)))];
  }
  ValueId pick_like(const Shape& shape) {
    std::vector<ValueId> like;
    for (ValueId id : values_) {
      if (shape_of(id) == shape) like.push_back(id);
    }
    return like[static_cast<size_t>(random_.below(static_cast<int>(like.size())))];
  }

  std::vector<int64_t> random_perm(int rank) {
    std::vector<int64_t> perm;
    for (int i = 0; i < rank; ++i) perm.insert(perm.begin() + random_.below(i + 1), i);
    return perm;
  }

  void add_random() {
    const ValueId x = pick();
    const Shape shape = shape_of(x);
    const int rank = shape.rank;
    if (rank == 0) return;
    const int64_t axis = random_.below(rank) - (random_.one_in(2) ? rank : 0);
    const int plain_axis = static_cast<int>(axis < 0 ? axis + rank : axis);
    switch (random_.below(20)) {
      case 0:
      case 1:
        add("Transpose", {x}, {{"perm", random_perm(rank)}});
        break;
      case 2:
        add("Transpose", {x}, {{"perm", rank == 4 ? std::vector<int64_t>{0, 2, 3, 1} : random_perm(rank)}});
        break;
      case 3:
        add("Sigmoid", {x});
        break;
      case 4:
        add("Add", {x, pick_like(shape)});
        break;
      case 5: {  // a constant that broadcasts, of lower rank perhaps
        Shape small;
        for (int i = random_.below(rank); i < rank; ++i) small.push_back(random_.one_in(2) ? 1 : shape[i]);
        if (random_.one_in(2))
          add("Mul", {floats(small), x});
        else
          add("Sub", {x, floats(small)});
        break;
      }
      case 6:
        add("Concat", {x, pick_like(shape)}, {{"axis", axis}});
        break;
      case 7:
        add("Split", {x}, {{"axis", axis}}, 2);
        break;
      case 8:
        add("Slice", {x, ints({random_.below(2)}), ints({INT64_MAX}), ints({axis}), ints({1 + random_.below(2)})});
        break;
      case 9: {
        std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
        pads[static_cast<size_t>(random_.below(2 * rank))] = random_.below(2);
        add("Pad", {x, ints(pads)});
        break;
      }
      case 10: {
        std::map<std::string, Attr> attrs = {{"keepdims", int64_t{random_.below(2)}}};
        if (!random_.one_in(3))
          attrs["axes"] = std::vector<int64_t>{axis};
        else if (rank > 2)
          attrs["axes"] = std::vector<int64_t>{0, rank - 1};
        add(random_.one_in(2) ? "ReduceMean" : "ReduceMax", {x}, attrs);
        break;
      }
      case 11:
        add("Softmax", {x}, {{"axis", axis}});
        break;
      case 12: {  // merge two neighbours, or split one
        std::vector<int64_t> target;
        for (int i = 0; i < rank; ++i) {
          if (i == plain_axis && shape[i] % 2 == 0 && random_.one_in(2)) {
            target.push_back(2);
            target.push_back(shape[i] / 2);
          } else if (i == plain_axis && i + 1 < rank) {
            target.push_back(shape[i] * shape[i + 1]);
            ++i;
          } else {
            target.push_back(shape[i]);
          }
        }
        add("Reshape", {x, ints(target)});
        break;
      }
      case 13:
        add(random_.one_in(2) ? "Flatten" : "Squeeze", {x});
        break;
      case 14:
        add("Unsqueeze", {x, ints({axis})});
        break;
      case 15: {
        std::vector<float> scales(static_cast<size_t>(rank), 1.0f);
        scales[static_cast<size_t>(plain_axis)] = 2.0f;
        Tensor tensor(DType::kF32, Shape{rank});
        std::copy(scales.begin(), scales.end(), tensor.as<float>());
        add("Resize", {x, kNoValue, graph_.add_constant(next_name(), std::move(tensor))},
            {{"mode", std::string("nearest")}});
        break;
      }
      case 16:
        if (rank == 4) {
          add("Conv", {x, floats({2 + random_.below(3), shape[1], 1, 1})});
          add("MaxPool", {values_.back()},
              {{"kernel_shape", std::vector<int64_t>{2, 1}}, {"pads", std::vector<int64_t>{1, 0, 0, 0}}});
        }
        break;
      case 17:
        add("Gather", {x, random_.one_in(2) ? ints({0, 0}) : graph_.add_constant(next_name(), Tensor(DType::kI64, {}))},
            {{"axis", axis}});
        break;
      case 18:
        add("ArgMax", {x}, {{"axis", axis}, {"keepdims", int64_t{random_.below(2)}}});
        break;
      case 19:
        add("Clip", {x, kNoValue, floats({})});
        break;
    }
  }

  Random random_;
  uint64_t seed_;
  Graph graph_;
  std::vector<ValueId> values_;
};

// Bytes that Transposes move which move more than axes of length 1.
int64_t transposed_bytes_of(const Graph& graph) {
  int64_t total = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != "Transpose") continue;
    const Value& in = graph.value(node.inputs[0]);
    if (!keeps_order(in.shape, perm_of(NodeView(graph, node)))) total += in.shape.num_elements() * 4;
  }
  return total;
}

}  // namespace

TEST_CASE("push_transposes_keeps_results_of_random_graphs" * doctest::test_suite("random")) {
  int64_t saved = 0;
  for (uint64_t seed = 1; seed <= soak_cases(300); ++seed) {
    Graph graph = RandomGraph(seed * 1000).make(25);
    INFO("seed ", seed);
    REQUIRE(verify_graph(graph, true).ok());
    const Graph before = graph;
    run_pass(graph, nhwc_layout);
    const int64_t bytes = transposed_bytes_of(graph);
    run_pass(graph, push_transposes);
    CHECK(transposed_bytes_of(graph) <= bytes);
    saved += bytes - transposed_bytes_of(graph);
    expect_same_results(before, graph, seed);
    // Once more, now that some Transposes are Reshapes.
    const int64_t bytes_now = transposed_bytes_of(graph);
    run_pass(graph, push_transposes);
    CHECK(transposed_bytes_of(graph) <= bytes_now);
    expect_same_results(before, graph, seed);
  }
  CHECK(saved > 100000);
}

TEST_CASE("all_passes_keep_results_of_random_graphs" * doctest::test_suite("random")) {
  const std::vector<Pass> passes = builtin_passes();
  for (uint64_t seed = 1; seed <= soak_cases(300); ++seed) {
    Graph graph = RandomGraph(seed * 77777).make(30);
    INFO("seed ", seed);
    const Graph before = graph;
    for (const Pass& pass : passes) {
      INFO("pass ", pass.name);
      run_pass(graph, pass.run);
    }
    expect_same_results(before, graph, seed);
  }
}

TEST_CASE("min_cut_matches_trying_all_sides") {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    struct Edge {
      int from, to;
      int64_t capacity;
    };
    constexpr int kNodes = 7;  // 0 the source, 1 the sink
    std::vector<Edge> edges;
    MinCut cut;
    for (int i = 2; i < kNodes; ++i) cut.add_node();
    for (int i = 0; i < 14; ++i) {
      const Edge edge = {random.below(kNodes), random.below(kNodes), random.below(9)};
      edges.push_back(edge);
      cut.add_edge(edge.from, edge.to, edge.capacity);
    }
    const auto cost_of = [&](int sides) {
      int64_t cost = 0;
      for (const Edge& edge : edges) cost += (sides >> edge.from & 1) && !(sides >> edge.to & 1) ? edge.capacity : 0;
      return cost;
    };
    int64_t best = INT64_MAX;
    int fewest = kNodes;
    for (int sides = 1; sides < 1 << kNodes; sides += 4) {  // the source is in, the sink is not
      const int count = __builtin_popcount(static_cast<unsigned>(sides));
      if (cost_of(sides) < best || (cost_of(sides) == best && count < fewest)) fewest = count;
      best = std::min(best, cost_of(sides));
    }
    CHECK(cut.solve() == best);
    int sides = 0;
    for (int i = 0; i < kNodes; ++i) sides |= cut.is_on_source_side(i) ? 1 << i : 0;
    CHECK(cost_of(sides) == best);
    CHECK(__builtin_popcount(static_cast<unsigned>(sides)) == fewest);
  }
}

TEST_CASE("perm_across_reshape_moves_what_it_says") {
  struct Case {
    Shape from, to;
    Perm perm;
    std::vector<int> expected;  // {-1}: there is none
  };
  const Case cases[] = {
      {{1, 85, 52, 52}, {1, 85, 2704}, {0, 2, 3, 1}, {0, 2, 1}},
      {{1, 255, 4, 5}, {1, 3, 85, 4, 5}, {0, 2, 3, 1}, {0, 3, 4, 1, 2}},
      {{1, 8, 1, 1}, {1, 8}, {0, 2, 3, 1}, {0, 1}},
      {{2, 3, 4}, {6, 4}, {2, 0, 1}, {1, 0}},
      {{2, 3, 4}, {6, 4}, {0, 2, 1}, {-1}},
      {{2, 3, 4}, {4, 3, 2}, {1, 2, 0}, {-1}},
      {{4, 6}, {1, 4, 1, 6, 1}, {1, 0}, {0, 3, 4, 1, 2}},
      {{2, 0, 3}, {0, 6}, {1, 0, 2}, {-1}},
      {{1, 1}, {}, {1, 0}, {}},
  };
  for (const Case& c : cases) {
    INFO(print_shape(c.from), " to ", print_shape(c.to));
    const std::optional<Perm> found = perm_across_reshape(c.from, c.to, c.perm);
    CHECK(found.value_or(Perm{-1}) == c.expected);
    if (!found) continue;
    // Reshape, then permute = permute, then reshape.
    Tensor x = random_tensor(c.from, 1);
    Tensor one = permute(x, c.perm);
    one.reshape(permute(c.to, *found));
    x.reshape(c.to);
    CHECK(one == permute(x, *found));
  }
}

TEST_CASE("push_transposes_cancels_across_quantisation") {
  Graph graph = read_graph(R"(
    graph "g" opset 13
    input %x: f32[2, 4, 3, 5]
    const %scales: f32[4] = {0.1, 0.2, 0.3, 0.4}
    const %zeros: i8[4] = {1, 2, 3, 4}
    const %one: f32[] = {0.25}
    const %zero: i8[1] = {5}
    %t = Transpose(%x) perm=[0, 2, 3, 1]
    %q = QuantizeLinear(%t, %scales, %zeros) axis=-1
    %d = DequantizeLinear(%q, %one, %zero)
    %y = Transpose(%d) perm=[0, 3, 1, 2]
    output %y
  )");
  const Graph before = graph;
  run_pass(graph, push_transposes);
  CHECK(count_nodes(graph, "Transpose") == 0);
  CHECK(attr_int(only_node(graph, "QuantizeLinear"), "axis", 0) == 1);
  expect_same_results(before, graph, 1, 0);
}
