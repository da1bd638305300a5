#include "passes/name_activations.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/match.h"

namespace kiln {
namespace {

constexpr double kSqrt2 = 1.4142135623730951;

// One rewrite run: every rule looks at a node and, if it matches, makes it the named activation of an earlier
// value.
class Namer {
 public:
  explicit Namer(Rewriter& rewriter) : rewriter_(rewriter), opset_(std::max(13, onnx_opset(rewriter.graph()))) {}

  bool name(int n) {
    if (rewriter_.is_dead(n) || !rewriter_.node(n).domain.empty() || has_attr(rewriter_.node(n), "activation"))
      return false;
    if (rewriter_.node(n).outputs.empty() || !is_f32(rewriter_.graph(), rewriter_.output(n))) return false;
    const std::string& op = rewriter_.node(n).op;
    if (op == "Mul") return silu(n) || hard_sigmoid(n) || hard_swish(n) || scaled_hard_swish(n) || mish(n) || gelu(n);
    if (op == "Div") return hard_sigmoid(n) || scaled_hard_swish(n);
    if (op == "Max" || op == "Min") return clip(n);
    if (op == "Clip") return clip_of_clip(n);
    if (op == "PRelu") return leaky_relu(n);
    return false;
  }

 private:
  Graph& graph() { return rewriter_.graph(); }
  ValueId input(int n, size_t i) { return rewriter_.input(n, i); }

  // Node n becomes op(x); whatever it read before loses a reader.
  bool become(int n, const char* op, ValueId x, int opset = 0, const char* domain = "") {
    Node& node = rewriter_.node(n);
    node.op = op;
    node.domain = domain;
    node.opset = domain[0] != '\0' ? 1 : std::max(opset_, opset);
    node.attrs.clear();
    rewriter_.set_inputs(n, {x});
    drop_unread();
    return true;
  }

  // Nodes that matched and are now read by nothing, last first.
  void drop_unread() {
    for (int n : between_) {
      if (rewriter_.is_dead(n)) continue;
      const ValueId out = rewriter_.output(n);
      if (rewriter_.consumers(out).empty() && !rewriter_.is_output(out)) rewriter_.remove(n);
    }
    between_.clear();
  }

  // The producer of `id` if it is `op` with this reader only. It is dropped when the pattern is replaced.
  int inner(ValueId id, const char* op) {
    const int n = rewriter_.sole_producer(id, op);
    if (n >= 0 && !has_attr(rewriter_.node(n), "activation")) {
      between_.push_back(n);
      return n;
    }
    return -1;
  }

  // The non-constant input of a binary node whose other input is `number`; kNoValue if it is not so.
  ValueId with_number(int n, double number) {
    for (size_t i : {0, 1}) {
      const bool may_swap = rewriter_.node(n).op == "Mul" || rewriter_.node(n).op == "Add";
      if (i == 1 && !may_swap) break;
      const ValueId x = input(n, i);
      if (is_splat(graph(), input(n, 1 - i), number) && keeps_shape(n, x)) return x;
    }
    return kNoValue;
  }
  bool keeps_shape(int n, ValueId x) {
    return !graph().is_constant(x) && graph().value(x).shape == graph().value(rewriter_.output(n)).shape;
  }

  template <typename Rule>
  bool either_order(int n, Rule rule) {
    for (size_t i : {0, 1}) {
      between_.clear();
      if (rule(input(n, i), input(n, 1 - i))) return true;
    }
    between_.clear();
    return false;
  }

  bool silu(int n) {
    return either_order(n, [&](ValueId x, ValueId gate) {
      const int sigmoid = inner(gate, "Sigmoid");
      return sigmoid >= 0 && input(sigmoid, 0) == x && become(n, "Silu", x, 0, "kiln");
    });
  }

  // Clip(x + 3, 0, 6) with `id` as its output: x, else kNoValue.
  ValueId clipped_x(ValueId id) {
    int clip = inner(id, "Clip");
    if (clip < 0) return kNoValue;
    const auto bounds = clip_bounds(rewriter_.view(clip));
    if (!bounds || bounds->min != 0 || bounds->max != 6) return kNoValue;
    const int add = inner(input(clip, 0), "Add");
    return add < 0 ? kNoValue : with_number(add, 3);
  }

  // What `n` divides by 6; kNoValue if it does something else.
  ValueId sixth_of(int n) { return rewriter_.node(n).op == "Div" ? with_number(n, 6) : with_number(n, 1.0 / 6); }

  bool hard_sigmoid(int n) {
    between_.clear();
    const ValueId clipped = sixth_of(n);
    const ValueId x = clipped == kNoValue ? kNoValue : clipped_x(clipped);
    if (x == kNoValue) return false;
    become(n, "HardSigmoid", x);
    rewriter_.node(n).attrs["alpha"] = 1.0f / 6;
    rewriter_.node(n).attrs["beta"] = 0.5f;
    return true;
  }

  bool hard_swish(int n) {
    return either_order(n, [&](ValueId x, ValueId gate) {
      const int hard = inner(gate, "HardSigmoid");
      if (hard < 0 || input(hard, 0) != x) return false;
      const float alpha = attr_float(rewriter_.node(hard), "alpha", 0.2f);
      const float beta = attr_float(rewriter_.node(hard), "beta", 0.5f);
      return std::fabs(alpha - 1.0f / 6) < 1e-6f && beta == 0.5f && become(n, "HardSwish", x, 14);
    });
  }

  bool scaled_hard_swish(int n) {
    between_.clear();
    const ValueId product = sixth_of(n);
    const int mul = product == kNoValue ? -1 : inner(product, "Mul");
    if (mul < 0) return false;
    for (size_t i : {0, 1}) {
      between_.assign(1, mul);
      const ValueId x = input(mul, i);
      if (clipped_x(input(mul, 1 - i)) == x && x != kNoValue) return become(n, "HardSwish", x, 14);
    }
    return false;
  }

  bool mish(int n) {
    return either_order(n, [&](ValueId x, ValueId gate) {
      const int tanh = inner(gate, "Tanh");
      const int softplus = tanh < 0 ? -1 : inner(input(tanh, 0), "Softplus");
      return softplus >= 0 && input(softplus, 0) == x && become(n, "Mish", x, 18);
    });
  }

  // 1 + Erf(x / sqrt 2) with `id` as its output: x, else kNoValue.
  ValueId erf_x(ValueId id) {
    const int add = inner(id, "Add");
    const ValueId erf_out = add < 0 ? kNoValue : with_number(add, 1);
    const int erf = erf_out == kNoValue ? -1 : inner(erf_out, "Erf");
    if (erf < 0) return kNoValue;
    const ValueId scaled = input(erf, 0);
    const int div = inner(scaled, "Div");
    if (div >= 0) return with_number(div, kSqrt2);
    const int mul = inner(scaled, "Mul");
    return mul < 0 ? kNoValue : with_number(mul, 1 / kSqrt2);
  }

  bool gelu(int n) {
    // (x * (1 + erf)) * 0.5
    between_.clear();
    const ValueId product = with_number(n, 0.5);
    const int mul = product == kNoValue ? -1 : inner(product, "Mul");
    if (mul >= 0) {
      for (size_t i : {0, 1}) {
        between_.assign(1, mul);
        const ValueId x = input(mul, i);
        if (x != kNoValue && erf_x(input(mul, 1 - i)) == x) return become(n, "Gelu", x, 20);
      }
    }
    // (x * 0.5) * (1 + erf), x * ((1 + erf) * 0.5)
    return either_order(n, [&](ValueId a, ValueId b) {
      const int half = inner(a, "Mul");
      if (half < 0) return false;
      const ValueId halved = with_number(half, 0.5);
      if (halved == kNoValue) return false;
      if (erf_x(b) == halved) return become(n, "Gelu", halved, 20);
      between_.assign(1, half);
      return erf_x(halved) == b && become(n, "Gelu", b, 20);
    });
  }

  bool become_clip(int n, ValueId x, ClipBounds bounds) {
    if (!(bounds.min <= bounds.max)) return false;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::string name = graph().value(rewriter_.output(n)).name;
    become(n, "Clip", x);
    if (bounds.min != -kInfinity) {
      rewriter_.set_input(n, 1, rewriter_.add_constant(name + ".min", make_f32_scalar(bounds.min)));
    }
    if (bounds.max != kInfinity) {
      rewriter_.set_input(n, 2, rewriter_.add_constant(name + ".max", make_f32_scalar(bounds.max)));
    }
    return true;
  }

  bool clip(int n) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    between_.clear();
    if (rewriter_.node(n).inputs.size() != 2) return false;
    const bool is_max = rewriter_.node(n).op == "Max";
    return either_order(n, [&](ValueId x, ValueId number) {
      const std::optional<double> c = splat_constant(graph(), number);
      if (!c || std::isnan(*c) || !keeps_shape(n, x)) return false;
      const auto bound = static_cast<float>(*c);
      return become_clip(n, x, is_max ? ClipBounds{bound, kInfinity} : ClipBounds{-kInfinity, bound});
    });
  }

  // Clip(Clip(x, a, b), c, d) = Clip(x, min(max(a, c), d), min(max(b, c), d))
  bool clip_of_clip(int n) {
    between_.clear();
    const auto outer = clip_bounds(rewriter_.view(n));
    if (!outer || !(outer->min <= outer->max)) return false;
    int first = inner(input(n, 0), "Relu");
    if (first < 0) first = inner(input(n, 0), "Clip");
    if (first < 0) return false;
    const auto bounds = clip_bounds(rewriter_.view(first));
    if (!bounds || !(bounds->min <= bounds->max)) return false;
    const auto clamp = [&](float v) { return std::min(std::max(v, outer->min), outer->max); };
    return become_clip(n, input(first, 0), {clamp(bounds->min), clamp(bounds->max)});
  }

  bool leaky_relu(int n) {
    between_.clear();
    const std::optional<double> slope = splat_constant(graph(), input(n, 1));
    if (!slope || !keeps_shape(n, input(n, 0))) return false;
    become(n, "LeakyRelu", input(n, 0));
    rewriter_.node(n).attrs["alpha"] = static_cast<float>(*slope);
    return true;
  }

  Rewriter& rewriter_;
  const int opset_;
  std::vector<int> between_;  // nodes inside the pattern being matched, outer ones first
};

}  // namespace

Result<int> name_activations(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  Namer namer(rewriter);
  int changes = 0;
  // In order: what is inside has its name by the time that the outside is looked at.
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    while (namer.name(n)) ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
