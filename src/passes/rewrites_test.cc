// Random graphs out of what exporters write: every rewriting pass alone, and all of them in order, must keep the
// results.
#include <doctest/doctest.h>

#include <algorithm>

#include "op_test.h"
#include "pass_test.h"
#include "passes/pipeline.h"
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
  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int>(list.size())));
  }

 private:
  uint64_t state_;
};

using Attrs = std::map<std::string, Attr>;
using Ints = std::vector<int64_t>;

// Grows a graph an idiom at a time. Idioms continue at one of the last values, so that they meet each other; now and
// then a value inside of one is read again later, or is a graph output.
class IdiomGraph {
 public:
  explicit IdiomGraph(uint64_t seed) : random_(seed), seed_(seed) {
    for (const char* name : {"input", "other"}) {
      const ValueId id = graph_.add_value(name, DType::kF32, {1 + random_.below(2), 4, 5, 4});
      graph_.inputs.push_back(id);
      images_.push_back(id);
      if (random_.one_in(2)) break;
    }
  }

  Graph make(int num_idioms) {
    for (int i = 0; i < num_idioms; ++i) {
      const ValueId out = add_idiom(pick());
      if (out != kNoValue && shape(out).rank == 4) images_.push_back(out);
    }
    add_output(images_.back());
    add_output(graph_.nodes.empty() ? images_[0] : graph_.nodes.back().outputs[0]);
    if (random_.one_in(2)) add_output(images_[static_cast<size_t>(random_.below(static_cast<int>(images_.size())))]);
    return std::move(graph_);
  }

 private:
  Shape shape(ValueId id) { return graph_.value(id).shape; }
  std::string next_name() { return "v" + std::to_string(graph_.values.size()); }
  void add_output(ValueId id) {
    if (std::count(graph_.outputs.begin(), graph_.outputs.end(), id) == 0) graph_.outputs.push_back(id);
  }

  ValueId floats(const Shape& s, double lo = -1, double hi = 1) {
    return graph_.add_constant(next_name(), random_tensor(s, ++seed_, lo, hi));
  }
  ValueId number(double v, const Shape& s = {}) {
    Tensor tensor(DType::kF32, s);
    for (int64_t i = 0; i < s.num_elements(); ++i) tensor.as<float>()[i] = static_cast<float>(v);
    return graph_.add_constant(next_name(), std::move(tensor));
  }
  ValueId ints(const Ints& values) {
    return graph_.add_constant(next_name(), make_i64_vector(values.data(), static_cast<int>(values.size())));
  }
  // A number as a scalar, or as exporters write it when they keep the rank.
  ValueId spelled(double v) { return number(v, random_.one_in(3) ? Shape{1, 1, 1, 1} : Shape{}); }

  // The output of a new node, or kNoValue if the node is not a valid one (then so is what is made of it).
  ValueId add(const char* op, std::vector<ValueId> inputs, Attrs attrs = {}, int opset = 13, int outputs = 1) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == kNoValue && i == 0) return kNoValue;
    }
    Node node;
    node.op = op;
    node.opset = opset;
    node.name = next_name();
    node.inputs = std::move(inputs);
    node.attrs = std::move(attrs);
    const size_t first = graph_.values.size();
    for (int i = 0; i < outputs; ++i) node.outputs.push_back(graph_.add_value(next_name()));
    const Inference inference = infer_node(builtin_ops(), graph_, node);
    if (!inference.ok() || inference.outputs[0].shape.num_elements() > 4000) {
      graph_.values.resize(first);
      return kNoValue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph_.value(node.outputs[i]).dtype = inference.outputs[i].dtype;
      graph_.value(node.outputs[i]).shape = inference.outputs[i].shape;
    }
    const ValueId out = node.outputs[0];
    graph_.nodes.push_back(std::move(node));
    if (random_.one_in(12) && shape(out).rank == 4) images_.push_back(out);
    if (random_.one_in(30)) add_output(out);
    return out;
  }

  ValueId either_way(const char* op, ValueId a, ValueId b) {
    if (a == kNoValue || b == kNoValue) return kNoValue;
    return random_.one_in(2) ? add(op, {a, b}) : add(op, {b, a});
  }

  ValueId pick() {
    const int n = static_cast<int>(images_.size());
    return images_[static_cast<size_t>(random_.one_in(5) ? random_.below(n) : n - 1 - random_.below(std::min(n, 2)))];
  }
  ValueId pick_like(const Shape& like) {
    std::vector<ValueId> found;
    for (ValueId id : images_) {
      if (shape(id) == like) found.push_back(id);
    }
    return found.empty() ? kNoValue : found[static_cast<size_t>(random_.below(static_cast<int>(found.size())))];
  }

  ValueId conv(ValueId x, bool same = false) {
    const int64_t channels = shape(x)[1];
    const int64_t group = !same && random_.one_in(3) ? channels : 1;
    const int64_t k = same || random_.one_in(2) ? 1 : 3;
    if (random_.one_in(6) && shape(x)[2] < 12) {
      const ValueId wt = floats({channels, 2, 2, 2}, -0.7, 0.7);
      return add("ConvTranspose", {x, wt, random_.one_in(2) ? floats({4}) : kNoValue},
                 {{"strides", Ints{2, 1}}, {"group", channels % 2 == 0 ? int64_t{2} : int64_t{1}}});
    }
    const int64_t pad = same ? 0 : k / 2;
    const ValueId w = last_weights_ != kNoValue && random_.one_in(3) && shape(last_weights_)[1] * group == channels
                          ? last_weights_
                          : floats({4, channels / group, k, k}, -0.6, 0.6);
    last_weights_ = w;
    Attrs attrs = {{"group", group}};
    if (pad > 0) attrs["pads"] = Ints{pad, pad, pad, pad};
    if (random_.one_in(6)) attrs["strides"] = Ints{2, 1};
    if (random_.one_in(2)) return add("Conv", {x, w}, attrs);
    return add("Conv", {x, w, floats({shape(w)[0]})}, attrs);
  }

  ValueId batch_norm(ValueId x) {
    if (x == kNoValue) return x;
    const Shape c = {shape(x)[1]};
    return add("BatchNormalization", {x, floats(c, 0.5, 1.5), floats(c), floats(c), floats(c, 0.5, 2)},
               {{"epsilon", random_.one_of({1e-5f, 1e-3f})}}, random_.one_of({9, 13, 15}));
  }

  ValueId with_constant(ValueId x) {
    const Shape s = shape(x);
    Shape small;
    switch (random_.below(5)) {
      case 0:
        break;
      case 1:
        small = {s[1], 1, 1};
        break;
      case 2:
        small = {1, s[1], 1, 1};
        break;
      case 3:
        small = {s[3]};
        break;
      default:
        small = s;
        break;
    }
    const ValueId c =
        random_.one_in(6) ? number(random_.one_of({0.0, 1.0, 2.0, 0.25}), small) : floats(small, 0.5, 1.5);
    const char* op = random_.one_of({"Add", "Sub", "Mul", "Div"});
    if (op[0] == 'D' && graph_.value(c).constant->as<float>()[0] == 0) op = "Add";
    return op[0] == 'D' ? add(op, {x, c})
                        : (op[0] == 'S' && random_.one_in(2) ? add(op, {x, c}) : either_way(op, x, c));
  }

  ValueId activation(ValueId x) {
    if (x == kNoValue) return x;
    switch (random_.below(12)) {
      case 0:
      case 1:
        return add("Relu", {x});
      case 2:
        return add("Clip",
                   {x, random_.one_in(3) ? kNoValue : number(-0.25), random_.one_in(3) ? kNoValue : number(0.5)});
      case 3:
        return add("Clip", {x, number(0.5), number(-0.5)});  // the other way round
      case 4:
        return add("Clip", {x}, {{"min", 0.0f}, {"max", 6.0f}}, 6);
      case 5:
        return add("LeakyRelu", {x}, random_.one_in(2) ? Attrs{} : Attrs{{"alpha", 0.1f}});
      case 6:
        return add("Sigmoid", {x});
      case 7:
        return add("HardSigmoid", {x}, random_.one_in(2) ? Attrs{} : Attrs{{"alpha", 1.0f / 6}});
      case 8:
        return add("HardSwish", {x}, {}, 14);
      case 9:
        return add("Tanh", {x});
      case 10:
        return add("PRelu", {x, random_.one_in(2) ? number(0.2) : floats({shape(x)[1], 1, 1})});
      default:
        return add(random_.one_of({"Max", "Min"}), {x, spelled(0.1)});
    }
  }

  // Clip(x + 3, 0, 6), as far as it goes with the numbers that it should have.
  ValueId relu6_of_x_plus_3(ValueId x) {
    const ValueId sum = either_way("Add", x, spelled(random_.one_in(8) ? 2.5 : 3));
    if (random_.one_in(4)) return add("Min", {add("Relu", {sum}), spelled(6)});
    return add("Clip", {sum, number(0), number(random_.one_in(8) ? 5 : 6)});
  }
  ValueId sixth(ValueId x) {
    if (x == kNoValue) return x;
    return random_.one_in(2) ? add("Div", {x, spelled(6)}) : either_way("Mul", x, spelled(1.0 / 6));
  }

  ValueId spelled_out(ValueId x) {
    const ValueId y = random_.one_in(10) ? pick_like(shape(x)) : x;  // not what it seems
    switch (random_.below(9)) {
      case 0:
        return either_way("Mul", x, add("Sigmoid", {y}));
      case 1:
        return either_way("Mul", x, sixth(relu6_of_x_plus_3(y)));
      case 2:
        return sixth(either_way("Mul", x, relu6_of_x_plus_3(y)));
      case 3:
        return either_way("Mul", sixth(x), relu6_of_x_plus_3(y));
      case 4:
        return either_way("Mul", x, add("HardSigmoid", {y}, {{"alpha", random_.one_of({1.0f / 6, 0.2f})}}));
      case 5:
        return sixth(relu6_of_x_plus_3(x));
      case 6:
        return either_way("Mul", x, add("Tanh", {add("Softplus", {y})}));
      case 7: {
        const ValueId erf = add("Erf", {random_.one_in(2) ? add("Div", {y, spelled(1.4142135623730951)})
                                                          : either_way("Mul", y, spelled(0.7071067811865476))});
        const ValueId sum = either_way("Add", erf, spelled(1));
        switch (random_.below(3)) {
          case 0:
            return either_way("Mul", either_way("Mul", x, sum), spelled(0.5));
          case 1:
            return either_way("Mul", either_way("Mul", x, spelled(0.5)), sum);
          default:
            return either_way("Mul", x, either_way("Mul", sum, spelled(0.5)));
        }
      }
      default:
        return add("Pow", {x, spelled(2)});
    }
  }

  ValueId padded(ValueId x) {
    Ints pads(8, 0);
    for (int i : {2, 3, 6, 7}) pads[static_cast<size_t>(i)] = random_.below(3);
    if (random_.one_in(8)) pads[static_cast<size_t>(random_.one_of({1, 2}))] = 1;
    if (random_.one_in(8)) pads[2] = -1;
    ValueId p = random_.one_in(8) ? add("Pad", {x, ints(pads)}, {{"mode", std::string("edge")}})
                                  : add("Pad", {x, ints(pads), random_.one_in(6) ? number(0.5) : kNoValue});
    if (p == kNoValue) return p;
    if (random_.one_in(4)) {
      const ValueId again = add("Pad", {p, ints({0, 0, 1, 0, 0, 0, 0, 1})});
      p = again == kNoValue ? p : again;
    }
    ValueId out = kNoValue;
    for (int i = random_.below(2); i < 2; ++i) {  // one reader, or two
      switch (random_.below(4)) {
        case 0: {
          Attrs attrs = {{"kernel_shape", Ints{3, 2}}, {"count_include_pad", int64_t{random_.below(2)}}};
          if (random_.one_in(2)) attrs["pads"] = Ints{1, random_.below(2), 0, 1};
          if (random_.one_in(3)) attrs["strides"] = Ints{2, 2};
          if (random_.one_in(4)) attrs["ceil_mode"] = int64_t{1};
          out = add("AveragePool", {p}, attrs);
          break;
        }
        case 1:
          out = add("MaxPool", {p}, {{"kernel_shape", Ints{2, 2}}});
          break;
        default:
          out = conv(p);
          break;
      }
      if (out != kNoValue) images_.push_back(out);
    }
    return out;
  }

  ValueId copied(ValueId x) {
    const Shape s = shape(x);
    switch (random_.below(12)) {
      case 0:
        return add("Identity", {x});
      case 1:
        return add("Dropout", {x}, {}, 13, 1 + random_.below(2));
      case 2:
        return add("Cast", {x}, {{"to", int64_t{1}}});
      case 3:
        return add("Reshape", {add("Reshape", {x, ints({s[0], -1})}), ints({0, s[1], s[2], s[3]})});
      case 4:
        return add("Reshape", {add("Flatten", {x}), ints({s[0], s[1], s[2] * s[3], 1})});
      case 5:
        return add("Transpose", {x}, {{"perm", Ints{0, 1, random_.below(2) + 2, 2}}});
      case 6:
        return add("Transpose", {add("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}})}, {{"perm", Ints{0, 3, 1, 2}}});
      case 7:
        return add("Slice", {x, ints({0}), ints({INT64_MAX}), ints({random_.below(4)})});
      case 8:
        return add("Concat", {x}, {{"axis", int64_t{1}}});
      case 9:
        return add(random_.one_of({"Sum", "Max", "Min", "Mean"}), {x});
      case 10:
        return add("Expand", {x, ints({1, 1, 1, 1})});
      default:
        return add("Squeeze", {add("Unsqueeze", {x, ints({2})}), ints({2})});
    }
  }

  ValueId gate(ValueId x) {  // squeeze and excite
    ValueId g = random_.one_in(2) ? add("GlobalAveragePool", {x})
                                  : add("ReduceMean", {x}, {{"axes", Ints{random_.one_of({2, -2}), -1}}});
    g = activation(conv(g, true));
    return g == kNoValue ? g : either_way("Mul", x, g);
  }

  ValueId dense(ValueId x) {
    const int64_t size = shape(x)[0] * shape(x)[1] * shape(x)[2] * shape(x)[3];
    const int64_t k = size / shape(x)[0];
    const ValueId flat = random_.one_in(2) ? add("Flatten", {x}) : add("Reshape", {x, ints({shape(x)[0], -1})});
    if (flat == kNoValue) return flat;
    ValueId y = kNoValue;
    if (random_.one_in(2)) {
      const bool transposed = random_.one_in(2);
      const ValueId b = floats(transposed ? Shape{6, k} : Shape{k, 6}, -0.2, 0.2);
      const ValueId c = random_.one_in(3) ? kNoValue : floats(random_.one_of({Shape{6}, Shape{1, 6}, Shape{1}}));
      y = add("Gemm", {flat, b, c}, {{"transB", int64_t{transposed}}, {"alpha", 0.5f}, {"beta", 2.0f}});
    } else {
      y = either_way("Add", add("MatMul", {flat, floats({k, 6}, -0.2, 0.2)}), floats({6}));
    }
    y = random_.one_in(2) ? batch_norm(y) : y;
    y = activation(y);
    if (y != kNoValue) add_output(y);
    return kNoValue;
  }

  ValueId add_idiom(ValueId x) {
    switch (random_.below(16)) {
      case 0:
        return conv(x);
      case 1:
        return activation(conv(x));
      case 2:
        return activation(batch_norm(conv(x)));
      case 3:
        return batch_norm(x);
      case 4:
      case 5:
        return with_constant(x);
      case 6:
        return activation(x);
      case 7:
      case 8:
        return spelled_out(x);
      case 9:
        return padded(x);
      case 10:
        return copied(x);
      case 11: {
        const ValueId y = random_.one_in(2) ? conv(x, true) : activation(conv(x, true));
        const ValueId r = y == kNoValue ? y : pick_like(shape(y));
        if (r == kNoValue) return y;
        const ValueId sum = random_.one_in(3) ? add("Sum", {y, r}) : either_way("Add", y, r);
        return random_.one_in(2) ? activation(sum) : sum;
      }
      case 12:
        return gate(x);
      case 13:
        return dense(x);
      case 14: {  // the same once more
        if (graph_.nodes.empty()) return x;
        const Node node = graph_.nodes[static_cast<size_t>(random_.below(static_cast<int>(graph_.nodes.size())))];
        return add(node.op.c_str(), node.inputs, node.attrs, node.opset, static_cast<int>(node.outputs.size()));
      }
      default:
        return either_way(random_.one_of({"Add", "Mul"}), x, pick_like(shape(x)));
    }
  }

  Random random_;
  uint64_t seed_;
  Graph graph_;
  std::vector<ValueId> images_;
  ValueId last_weights_ = kNoValue;
};

}  // namespace

TEST_CASE("every_pass_alone_keeps_results_of_random_idioms" * doctest::test_suite("random")) {
  const std::vector<Pass> passes = builtin_passes();
  for (uint64_t seed = 1; seed <= soak_cases(1500); ++seed) {
    const Graph before = IdiomGraph(seed * 1000).make(8);
    const Pass& pass = passes[seed % passes.size()];
    INFO("pass ", pass.name, ", seed ", seed);
    Graph graph = before;
    run_pass(graph, pass.run);
    expect_same_results(before, graph, seed, 3e-5);
  }
}

TEST_CASE("all_passes_keep_results_of_random_idioms" * doctest::test_suite("random")) {
  const std::vector<Pass> passes = builtin_passes();
  size_t nodes_before = 0;
  size_t nodes_after = 0;
  for (uint64_t seed = 1; seed <= soak_cases(500); ++seed) {
    const Graph before = IdiomGraph(seed * 77777).make(12);
    Graph graph = before;
    for (const Pass& pass : passes) {
      INFO("pass ", pass.name, ", seed ", seed);
      run_pass(graph, pass.run);
    }
    expect_same_results(before, graph, seed, 1e-4);
    nodes_before += before.nodes.size();
    nodes_after += graph.nodes.size();
  }
  CHECK(nodes_after * 3 < nodes_before * 2);
}
