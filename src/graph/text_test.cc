#include "graph/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "soak.h"

namespace kiln {
namespace {

const PrintOptions kEverything{std::numeric_limits<int64_t>::max()};

uint64_t next_random(uint64_t& state) { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; }

// Names with anything in them.
std::string random_name(uint64_t& state, size_t index) {
  static constexpr char kLetters[] = "abAB09_./:- \"'\\\n\t#%=(),{}[]@?\x01\xc3\xa9";
  std::string name;
  for (uint64_t n = next_random(state) % 8; n > 0; --n) name += kLetters[next_random(state) % (sizeof(kLetters) - 1)];
  return name + std::to_string(index) + (next_random(state) % 4 == 0 ? ":" : "");
}

Tensor random_constant(uint64_t& state) {
  const auto dtype = static_cast<DType>(1 + next_random(state) % (kNumDTypes - 1));
  Shape shape;
  for (uint64_t rank = next_random(state) % 4; rank > 0; --rank)
    shape.push_back(static_cast<int64_t>(next_random(state) % 4));
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t bits = next_random(state) * next_random(state);
    if (!is_float(dtype))
      store_i64(dtype, tensor.data(), i, static_cast<int64_t>(bits));
    else
      store_f64(dtype, tensor.data(), i, bits % 16 == 0 ? INFINITY : std::ldexp(static_cast<double>(bits), -60));
  }
  return tensor;
}

Attr random_attr(uint64_t& state) {
  switch (next_random(state) % 7) {
    case 0:
      return static_cast<int64_t>(next_random(state)) - 1000000000;
    case 1:
      return std::ldexp(static_cast<float>(next_random(state)), -20);
    case 2:
      return random_name(state, 0);
    case 3:
      return std::vector<int64_t>(next_random(state) % 3, -5);
    case 4:
      return std::vector<float>(next_random(state) % 3, 4.0f);
    case 5:
      return std::vector<std::string>(next_random(state) % 3, "x y");
    default:
      return TensorPtr(std::make_shared<const Tensor>(random_constant(state)));
  }
}

Graph random_graph(uint64_t seed) {
  uint64_t state = seed;
  Graph graph;
  graph.name = random_name(state, 0);
  for (uint64_t i = next_random(state) % 3; i > 0; --i) graph.metadata[random_name(state, i)] = random_name(state, i);
  std::vector<ValueId> known;
  for (size_t i = 0; i < 1 + next_random(state) % 2; ++i) {
    graph.inputs.push_back(graph.add_value(random_name(state, 100 + i), DType::kF32, {2, kUnknownDim}));
    known.push_back(graph.inputs.back());
  }
  for (size_t n = 0; n < next_random(state) % 6; ++n) {
    if (next_random(state) % 2 == 0)
      known.push_back(graph.add_constant(random_name(state, 200 + n), random_constant(state)));
    Node node;
    node.op = n % 3 == 0 ? "Conv" : "My Op";
    node.domain = n % 3 == 0 ? "" : "com.example::x";
    node.opset = static_cast<int>(next_random(state) % 20);
    node.name = next_random(state) % 3 == 0 ? "" : random_name(state, n);
    for (uint64_t i = next_random(state) % 4; i > 0; --i) {
      node.inputs.push_back(next_random(state) % 5 == 0 ? kNoValue : known[next_random(state) % known.size()]);
    }
    const bool typed = next_random(state) % 2 == 0;
    node.outputs.push_back(graph.add_value(random_name(state, 300 + n), typed ? DType::kI64 : DType::kInvalid, {1, 2}));
    if (!typed) graph.values.back().shape = {};
    if (next_random(state) % 4 == 0) node.outputs.insert(node.outputs.begin(), kNoValue);
    for (uint64_t i = next_random(state) % 4; i > 0; --i) node.attrs["attr " + std::to_string(i)] = random_attr(state);
    known.push_back(node.outputs.back());
    graph.nodes.push_back(std::move(node));
  }
  graph.outputs.push_back(known.back());
  return graph;
}

}  // namespace

TEST_CASE("printing_and_parsing_gives_the_same_graph" * doctest::test_suite("random")) {
  for (uint64_t seed = 1; seed <= test::soak_cases(500); ++seed) {
    CAPTURE(seed);
    Graph graph = random_graph(seed);
    compact_values(graph);
    const std::string text = print_graph(graph, kEverything);
    const Result<Graph> parsed = parse_graph(text);
    REQUIRE_MESSAGE(parsed.ok(), parsed.status().message(), "\n", text);
    CHECK(print_graph(parsed.value(), kEverything) == text);
    REQUIRE(parsed.value().nodes.size() == graph.nodes.size());
    CHECK(parsed.value().name == graph.name);
    CHECK(parsed.value().metadata == graph.metadata);
    for (const Value& value : graph.values) {
      const Value* same = nullptr;
      for (const Value& other : parsed.value().values) {
        if (other.name == value.name) same = &other;
      }
      CHECK_MESSAGE(same != nullptr, "no ", value.name, " after parsing\n", text);
      if (same == nullptr) continue;
      CHECK(same->dtype == value.dtype);
      if (value.dtype != DType::kInvalid) CHECK(same->shape == value.shape);
      CHECK((same->constant != nullptr) == (value.constant != nullptr));
      if (value.constant && same->constant) CHECK(*same->constant == *value.constant);
    }
  }
}

TEST_CASE("parsing_any_prefix_or_damage_of_a_text_ends_with_an_error_or_a_graph") {
  const std::string text = print_graph(random_graph(7), kEverything);
  for (size_t length = 0; length <= text.size(); ++length) {
    const Result<Graph> parsed = parse_graph(std::string_view(text).substr(0, length));
    if (!parsed.ok()) CHECK(!parsed.status().message().empty());
  }
  uint64_t state = 11;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    for (int k = 0; k < 3; ++k) damaged[next_random(state) % damaged.size()] = static_cast<char>(next_random(state));
    const Result<Graph> parsed = parse_graph(damaged);
    if (!parsed.ok()) CHECK(!parsed.status().message().empty());
  }
}

TEST_CASE("long_constants_print_as_splat_or_by_their_hash") {
  Graph graph;
  Tensor same(DType::kF32, Shape{20});
  for (int i = 0; i < 20; ++i) same.as<float>()[i] = 0.1f;
  Tensor mixed = same;
  mixed.as<float>()[19] = 0.2f;
  graph.outputs = {graph.add_constant("same", same), graph.add_constant("mixed", mixed)};
  const std::string text = print_graph(graph);
  CHECK(text.find("splat(0.1)") != std::string::npos);
  CHECK(text.find("const %mixed: f32[20] = sha256:") != std::string::npos);
  CHECK(!parse_graph(text).ok());
}

TEST_CASE("random_constants_are_the_same_everywhere") {
  const Result<Graph> graph = parse_graph(
      "graph \"g\"\nconst %c: f32[3] = random(1)\nconst %d: i32[4] = random(2, 0, 9)\noutput %c\noutput %d\n");
  REQUIRE(graph.ok());
  const Tensor& floats = *graph.value().value(graph.value().outputs[0]).constant;
  CHECK(floats.as<float>()[0] == doctest::Approx(0.13312315));
  const Tensor& ints = *graph.value().value(graph.value().outputs[1]).constant;
  for (int i = 0; i < 4; ++i) {
    CHECK(ints.as<int32_t>()[i] >= 0);
    CHECK(ints.as<int32_t>()[i] < 9);
  }
}

}  // namespace kiln
