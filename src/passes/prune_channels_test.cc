#include "passes/prune_channels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/text.h"
#include "pass_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

Value& value_named(Graph& graph, const std::string& name) {
  const auto found =
      std::find_if(graph.values.begin(), graph.values.end(), [&](const Value& value) { return value.name == name; });
  REQUIRE(found != graph.values.end());
  return *found;
}

// Multiplies the slices `list` of axis 0 (of `axis`) of a constant.
void scale_slices(Graph& graph, const std::string& name, const std::vector<int64_t>& list, float factor, int axis = 0) {
  Value& value = value_named(graph, name);
  Tensor copy = *value.constant;
  const int64_t inner = copy.shape().product(axis + 1, copy.shape().rank);
  const int64_t length = copy.shape()[axis];
  for (int64_t i = 0; i < copy.num_elements(); ++i) {
    if (std::find(list.begin(), list.end(), i / inner % length) != list.end()) copy.as<float>()[i] *= factor;
  }
  value.constant = std::make_shared<const Tensor>(std::move(copy));
}

int64_t channels_of(Graph& graph, const std::string& name) { return value_named(graph, name).shape[1]; }

struct Case {
  const char* what;
  std::vector<const char*> empty;  // constants whose slices 1 and 2 of axis 0 become zero
  int removed;
  const char* narrowed;  // a value that keeps two channels fewer
  const char* nodes;
};

// Twelve channels everywhere unless a case says otherwise.
const std::string kHead = R"(
  graph "g" opset 17
  input %x: f32[2, 12, 6, 6]
  input %features: f32[3, 12]
  const %w1: f32[12, 12, 3, 3] = random(1)
  const %b1: f32[12] = random(2)
  const %w2: f32[12, 12, 3, 3] = random(3)
  const %b2: f32[12] = random(4)
  const %w3: f32[4, 12, 3, 3] = random(5)
  const %p3: f32[4, 12, 1, 1] = random(6)
  const %dw: f32[12, 1, 3, 3] = random(7)
  const %wg: f32[12, 6, 3, 3] = random(8)
  const %f1: f32[12, 12] = random(9)
  const %f2: f32[5, 12] = random(10)
  const %f432: f32[5, 432] = random(11)
  const %wide: f32[4, 24, 3, 3] = random(12)
  const %t: f32[12, 4, 3, 3] = random(13)
  const %slope: f32[12, 1, 1] = random(14)
  const %none: f32[1] = {0.0}
)";

Graph make_graph(const Case& c) {
  Graph graph = read_graph(kHead + c.nodes);
  for (const char* name : c.empty) scale_slices(graph, name, {1, 2}, 0);
  return graph;
}

void check(const Case& c) {
  INFO(std::string(c.what));
  const Graph before = make_graph(c);
  Graph graph = before;
  const int64_t channels = channels_of(graph, c.narrowed);
  CHECK(run_pass(graph, prune_channels) == c.removed);
  CHECK(channels_of(graph, c.narrowed) == channels - (c.removed > 0 ? 2 : 0));
  expect_same_results(before, graph, 7, 1e-6);
}

}  // namespace

TEST_CASE("prune_channels_goes_through") {
  const Case cases[] = {
      {"two convolutions", {"w1"}, 2, "a", "%a = Conv(%x, %w1)\n%y = Conv(%a, %w3)\noutput %y"},
      {"weights and bias",
       {"w1", "b1"},
       2,
       "r",
       "%a = Conv(%x, %w1, %b1) pads=[1, 1, 1, 1]\n%r = Relu(%a)\n%y = Conv(%r, %w3) pads=[1, 1, 1, 1]\noutput %y"},
      {"a bias that the activation cuts off",
       {"w1"},
       2,
       "r",
       "%cut = Neg(%b_abs)\n%b_abs = Abs(%b1)\n%a = Conv(%x, %w1, %cut)\n%r = Relu(%a)\n%y = Conv(%r, %w3) pads=[1, "
       "1, 1, 1]\noutput %y"},
      {"a number into the bias of a 1x1 convolution",
       {"w1"},
       2,
       "r",
       "%a = Conv(%x, %w1, %b1)\n%r = Sigmoid(%a)\n%y = Conv(%r, %p3)\noutput %y"},
      {"a number into the bias of an unpadded convolution",
       {"w1"},
       2,
       "r",
       "%a = Conv(%x, %w1, %b1)\n%r = HardSwish(%a)\n%m = MaxPool(%r) kernel_shape=[2, 2]\n%y = Conv(%m, %w3)\noutput "
       "%y"},
      {"a number that borders would see less of",
       {"w1"},
       0,
       "r",
       "%a = Conv(%x, %w1, %b1)\n%r = Sigmoid(%a)\n%y = Conv(%r, %w3) pads=[1, 1, 1, 1]\noutput %y"},
      {"unread channels",
       {"f1"},
       2,
       "g",
       "%g = Gemm(%features, %w0)\n%h = Relu(%g)\n%y = MatMul(%h, %f1)\noutput %y\nconst %w0: f32[12, 12] = "
       "random(20)"},
      {"depthwise",
       {"w1", "b1"},
       4,
       "a",
       "%a = Conv(%x, %w1, %b1)\n%d = Conv(%a, %dw) group=12 pads=[1, 1, 1, 1]\n%y = Conv(%d, %w3)\noutput %y"},
      {"a depthwise that is empty itself",
       {"dw"},
       4,
       "a",
       "%a = Conv(%x, %w1, %b1)\n%d = Conv(%a, %dw) group=12 pads=[1, 1, 1, 1]\n%y = Conv(%d, %w3) pads=[1, 1, 1, "
       "1]\noutput %y"},
      {"transposed",
       {"w1", "b1"},
       2,
       "a",
       "%a = Conv(%x, %w1, %b1)\n%y = ConvTranspose(%a, %t) strides=[2, 2]\noutput %y"},
      {"a residual that is empty in both terms",
       {"w1", "b1", "w2", "b2"},
       4,
       "s",
       "%a = Conv(%x, %w1, %b1)\n%b = Conv(%x, %w2, %b2)\n%s = Add(%a, %b)\n%r = Relu(%s)\n%y = Conv(%r, %w3) pads=[1, "
       "1, 1, 1]\noutput %y"},
      {"a residual that is empty in one",
       {"w1", "b1"},
       0,
       "s",
       "%a = Conv(%x, %w1, %b1)\n%b = Conv(%x, %w2, %b2)\n%s = Add(%a, %b)\n%y = Conv(%s, %w3)\noutput %y"},
      {"an input of the graph in the sum",
       {"w1", "b1"},
       0,
       "s",
       "%a = Conv(%x, %w1, %b1) pads=[1, 1, 1, 1]\n%s = Add(%a, %x)\n%y = Conv(%s, %w3)\noutput %y"},
      {"an output of the graph", {"w1", "b1"}, 0, "y", "%y = Conv(%x, %w1, %b1)\noutput %y"},
      {"an output on the way",
       {"w1", "b1"},
       0,
       "a",
       "%a = Conv(%x, %w1, %b1)\n%y = Conv(%a, %w3)\noutput %y\noutput %a"},
      {"an operator that reads along channels",
       {"w1", "b1"},
       0,
       "s",
       "%a = Conv(%x, %w1, %b1)\n%s = Softmax(%a) axis=1\n%y = Conv(%s, %w3)\noutput %y"},
      {"constants a channel",
       {"w1", "b1"},
       2,
       "p",
       "%a = Conv(%x, %w1, %b1)\n%p = PRelu(%a, %slope)\n%q = Mul(%p, %slope)\n%y = Conv(%q, %w3)\noutput %y"},
      {"squeeze and excite",
       {"w1", "b1"},
       4,
       "e",
       "%a = Conv(%x, %w1, %b1)\n%g = GlobalAveragePool(%a)\n%e = Conv(%g, %pw, %b2)\n%s = Sigmoid(%e)\n%m = Mul(%a, "
       "%s)\n%y = Conv(%m, %w3)\noutput %y\nconst %pw: f32[12, 12, 1, 1] = random(21)"},
      {"a product with one channel for all",
       {"w1", "b1"},
       2,
       "m",
       "%a = Conv(%x, %w1, %b1)\n%i = Conv(%x, %one)\n%m = Mul(%a, %i)\n%y = Conv(%m, "
       "%w3)\noutput %y\noutput %i\nconst %one: f32[1, 12, 3, 3] = random(22)"},
      {"concat",
       {"w1", "b1"},
       2,
       "c",
       "%a = Conv(%x, %w1, %b1)\n%b = Conv(%x, %w2, %b2)\n%c = Concat(%a, %b) axis=1\n%y = Conv(%c, %wide)\noutput %y"},
      {"concat with a constant",
       {"w1", "b1"},
       2,
       "c",
       "%a = Conv(%x, %w1, %b1)\n%c = Concat(%k, %a) axis=1\n%y = Conv(%c, %wide)\noutput %y\nconst %k: f32[2, 12, 4, "
       "4] = random(23)"},
      {"concat of rows",
       {"w1", "b1"},
       0,
       "c",
       "%a = Conv(%x, %w1, %b1)\n%b = Conv(%x, %w2, %b2)\n%c = Concat(%a, %b) axis=2\n%y = Conv(%c, %w3)\noutput %y"},
      {"split",
       {"w1", "b1"},
       2,
       "a",
       "%a = Conv(%x, %w1, %b1)\n%l, %h = Split(%a) axis=1\n%k = Conv(%l, %half)\n%y = Conv(%h, "
       "%half)\noutput %y\noutput %k\nconst %half: f32[4, 6, 3, 3] = random(24)"},
      {"slice of channels",
       {"w1", "b1"},
       2,
       "s",
       "%a = Conv(%x, %w1, %b1)\n%s = Slice(%a, %from, %to, %axis)\n%y = Conv(%s, %half)\n%z = Conv(%a, %w3)\noutput "
       "%y\noutput %z\nconst %half: f32[4, 6, 3, 3] = random(25)\nconst %from: i64[1] = {-12}\nconst %to: i64[1] = "
       "{6}\nconst %axis: i64[1] = {1}"},
      {"shortcut of a ResNet for CIFAR",
       {"w1", "b1", "wb"},
       4,
       "s",
       "%a = Conv(%x, %w1, %b1) pads=[1, 1, 1, 1]\n%r = Relu(%a)\n%d = Slice(%r, %from, %to, %axes, %steps)\n%p = "
       "Pad(%d, %pads, %nought)\n%b = Conv(%x, %wb) strides=[2, 2] pads=[1, 1, 1, 1]\n%s = Add(%p, %b)\n%q = "
       "Relu(%s)\n%y = Conv(%q, %wide) pads=[1, 1, 1, 1]\noutput %y\nconst %from: i64[2] = {0, 0}\nconst %to: i64[2] = "
       "{9999, 9999}\nconst %axes: i64[2] = {2, 3}\nconst %steps: i64[2] = {2, 2}\nconst %pads: i64[8] = {0, 0, 0, 0, "
       "0, 12, 0, 0}\nconst %nought: f32[] = {0.0}\nconst %wb: f32[24, 12, 3, 3] = random(26)"},
      {"flatten",
       {"w1", "b1"},
       2,
       "a",
       "%a = Conv(%x, %w1, %b1) pads=[1, 1, 1, 1]\n%f = Flatten(%a)\n%y = Gemm(%f, %f432) transB=1\noutput %y"},
      {"reshape of what is a number",
       {"w1"},
       2,
       "a",
       "%a = Conv(%x, %w1, %b1) pads=[1, 1, 1, 1]\n%f = Reshape(%a, %flat)\n%y = Gemm(%f, %f432, %f5) transB=1 "
       "alpha=0.5 "
       "beta=2.0\noutput %y\nconst %flat: i64[2] = {0, -1}\nconst %f5: f32[5] = random(27)"},
      {"gemm into gemm",
       {"f1"},
       2,
       "g",
       "%g = Gemm(%features, %f1, %b1) transB=1\n%h = Relu(%g)\n%y = Gemm(%h, %f2) transB=1\noutput %y"},
      {"global pool and squeeze",
       {"w1"},
       2,
       "a",
       "%a = Conv(%x, %w1, %b1)\n%g = GlobalAveragePool(%a)\n%q = Squeeze(%g, %hw)\n%y = Gemm(%q, %f2) "
       "transB=1\noutput "
       "%y\nconst %hw: i64[2] = {2, 3}"},
      {"pools and resize",
       {"w1", "b1"},
       2,
       "r",
       "%a = Conv(%x, %w1, %b1)\n%m = AveragePool(%a) kernel_shape=[3, 3] pads=[1, 1, 1, 1] count_include_pad=1\n%r = "
       "Resize(%m, _, _, %size) mode=\"linear\"\n%y = Conv(%r, %w3)\noutput %y\nconst %size: i64[4] = {2, 12, 8, 8}"},
      {"part of a group", {"wg"}, 0, "a", "%a = Conv(%x, %wg) group=2\n%y = Conv(%a, %w3)\noutput %y"},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("prune_channels_takes_whole_groups") {
  Graph before = read_graph(kHead +
                            "%a = Conv(%x, %w1) pads=[1, 1, 1, 1]\n%g = Conv(%a, %wg, %b1) group=2\n%y = "
                            "Conv(%g, %p3)\noutput %y");
  scale_slices(before, "wg", {0, 1, 2, 3, 4, 5}, 0);
  Graph graph = before;
  CHECK(run_pass(graph, prune_channels) == 12);
  CHECK(channels_of(graph, "a") == 6);
  CHECK(channels_of(graph, "g") == 6);
  expect_same_results(before, graph, 3, 1e-6);
}

TEST_CASE("prune_channels_keeps_one_channel") {
  Graph before = read_graph(kHead + "%a = Conv(%x, %w1, %b1)\n%r = Relu(%a)\n%y = Conv(%r, %p3)\noutput %y");
  scale_slices(before, "w1", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0);
  Graph graph = before;
  CHECK(run_pass(graph, prune_channels) == 11);
  CHECK(channels_of(graph, "r") == 1);
  expect_same_results(before, graph, 3, 1e-6);
}

TEST_CASE("prune_channels_reports") {
  Graph graph = read_graph(kHead + "%a = Conv(%x, %w1) 'first'\n%y = Conv(%a, %w3) 'second'\noutput %y");
  scale_slices(graph, "w1", {3, 4, 5}, 0);
  CHECK(run_pass(graph, prune_channels) == 3);
  REQUIRE(graph.pruning.layers.size() == 1);
  CHECK(graph.pruning.layers[0].name == "first");
  CHECK(graph.pruning.layers[0].channels == 12);
  CHECK(graph.pruning.layers[0].removed == 3);
  CHECK(graph.pruning.macs_before == 2 * (16 * 12 * 108 + 4 * 4 * 108));
  CHECK(graph.pruning.macs_after == 2 * (16 * 9 * 108 + 4 * 4 * 81));
  CHECK(graph.pruning.largest_removed == 0);
}

TEST_CASE("prune_channels_threshold") {
  Graph small = read_graph(kHead +
                           "%a = Conv(%x, %w1, %b1) pads=[1, 1, 1, 1]\n%r = Sigmoid(%a)\n%y = Conv(%r, %w3) "
                           "pads=[1, 1, 1, 1]\noutput %y");
  scale_slices(small, "w1", {7, 8}, 1e-3f);
  Graph graph = small;
  CHECK(run_pass(graph, prune_channels) == 0);
  graph.pruning.threshold = 1e-4;
  CHECK(run_pass(graph, prune_channels) == 0);
  graph.pruning.threshold = 2e-3;
  CHECK(run_pass(graph, prune_channels) == 2);
  CHECK(channels_of(graph, "r") == 10);
  CHECK(graph.pruning.largest_removed > 5e-4);
  CHECK(graph.pruning.largest_removed <= 1e-3);
  // Without padding nothing is lost but the weights.
  small = read_graph(kHead + "%a = Conv(%x, %w1, %b1)\n%r = Sigmoid(%a)\n%y = Conv(%r, %w3)\noutput %y");
  scale_slices(small, "w1", {7, 8}, 1e-5f);
  graph = small;
  graph.pruning.threshold = 1e-4;
  CHECK(run_pass(graph, prune_channels) == 2);
  expect_same_results(small, graph, 5, 1e-4);
  // What an output of the graph shows keeps its weights.
  Graph shown = read_graph(kHead + "%y = Conv(%x, %w1, %b1)\noutput %y");
  scale_slices(shown, "w1", {7}, 1e-3f);
  graph = shown;
  graph.pruning.threshold = 2e-3;
  CHECK(run_pass(graph, prune_channels) == 0);
  expect_same_results(shown, graph, 5, 0);
}

// Layers of every kind after each other, with random channels emptied; the reference kernels have the last word.
TEST_CASE("prune_channels_random_graphs" * doctest::test_suite("random")) {
  int removed = 0;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return random() % limit; };
    std::string text = "graph \"g\" opset 17\ninput %x: f32[1, 8, 6, 6]\n";
    std::vector<std::string> values = {"x"};  // of 8 channels, 6 x 6
    std::vector<std::string> weights;
    const auto any_value = [&] { return values[below(static_cast<uint32_t>(values.size()))]; };
    const auto constant = [&](const std::string& name, const std::string& shape) {
      text += "const %" + name + ": f32" + shape + " = random(" + std::to_string(random() % 100000) + ")\n";
    };
    for (int i = 0; i < 12; ++i) {
      const std::string id = std::to_string(i);
      const std::string y = "v" + id, w = "w" + id, b = "b" + id, x = any_value();
      const auto add = [&](const std::string& line) { text += "%" + y + " = " + line + "\n"; };
      switch (below(12)) {
        case 0:
          add("Add(%" + x + ", %" + any_value() + ")");
          break;
        case 1:
          add("Mul(%" + x + ", %" + any_value() + ")");
          break;
        case 2:
          add("Relu(%" + x + ")");
          break;
        case 3:
          add("Sigmoid(%" + x + ")");
          break;
        case 4:
          constant(w, "[8, 1, 3, 3]");
          constant(b, "[8]");
          weights.insert(weights.end(), {w, b});
          add("Conv(%" + x + ", %" + w + ", %" + b + ") group=8 pads=[1, 1, 1, 1]");
          break;
        case 5:
          constant(w, "[8, 16, 1, 1]");
          text += "%c" + id + " = Concat(%" + x + ", %" + any_value() + ") axis=1\n";
          weights.push_back(w);
          add("Conv(%c" + id + ", %" + w + ")");
          break;
        case 6:
          text += "%s" + id + ", %t" + id + " = Split(%" + x + ") axis=1\n";
          add("Concat(%t" + id + ", %s" + id + ") axis=1");
          break;
        case 7:
          constant(w, "[8, 4, 3, 3]");
          weights.push_back(w);
          add("Conv(%" + x + ", %" + w + ") group=2 pads=[1, 1, 1, 1]");
          break;
        case 8:
          text += "const %from" + id + ": i64[1] = {2}\nconst %to" + id + ": i64[1] = {7}\nconst %axis" + id +
                  ": i64[1] = {1}\nconst %pads" + id + ": i64[8] = {0, 1, 0, 0, 0, 2, 0, 0}\n%s" + id + " = Slice(%" +
                  x + ", %from" + id + ", %to" + id + ", %axis" + id + ")\n";
          add("Pad(%s" + id + ", %pads" + id + ")");
          break;
        default:
          constant(w, "[8, 8, 3, 3]");
          constant(b, "[8]");
          weights.insert(weights.end(), {w, b});
          add("Conv(%" + x + ", %" + w + ", %" + b + ") pads=[1, 1, 1, 1]");
      }
      values.push_back(y);
    }
    constant("last", "[3, 8, 3, 3]");
    text += "%y = Conv(%" + values.back() + ", %last) pads=[1, 1, 1, 1]\n%z = GlobalAveragePool(%" + any_value() +
            ")\noutput %y\noutput %z\n";
    Graph before = read_graph(text);
    for (const std::string& name : weights) {
      if (below(4) == 0) continue;
      std::vector<int64_t> list;
      for (int64_t c = 0; c < 8; ++c) {
        if (below(5) < 3) list.push_back(c);
      }
      scale_slices(before, name, list, 0);
    }
    INFO("seed ", seed, "\n", text);
    Graph graph = before;
    removed += run_pass(graph, prune_channels);
    expect_same_results(before, graph, seed, 2e-6);
  }
  CHECK(removed > 300);
}
