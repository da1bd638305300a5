#include "passes/prune_channels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/match.h"
#include "passes/narrow_channels.h"

namespace kiln {
namespace {

constexpr int64_t kMostChannels = 1 << 22;  // of all values; no network has as many, but a graph may

// Channels are numbered (ChannelNumbers) and looked at in three sweeps:
//   forward   which channels are one number at every element, and which
//   backward  which channels anything reads that a graph output depends on and that is not such a number
//   groups    channels that a node ties together form a group (union-find); a group goes if each of its channels is a
//             number or unread and no node holds on to one
// Each sweep takes time linear in links and, in the worst case, in weights; as a rule the first weight of a pair of
// channels ends the search.
class ChannelAnalysis {
 public:
  ChannelAnalysis(const Graph& graph, const OpRegistry& ops, const ChannelNumbers& channels,
                  const std::vector<ChannelFlow>& flows, bool borders_count)
      : graph_(graph), ops_(ops), channels_(channels), flows_(flows), borders_count_(borders_count) {}

  // `is_ignored`, by number: output channels of products whose weights count as zero.
  void run(const std::vector<bool>& is_ignored) {
    const auto size = static_cast<size_t>(channels_.size());
    is_ignored_ = is_ignored;
    states_.assign(size, State::kUnseen);
    is_read_.assign(size, false);
    is_fixed_.assign(size, false);
    numbers_.assign(size, 0);
    parents_.resize(size);
    std::iota(parents_.begin(), parents_.end(), 0);
    for (size_t n = 0; n < flows_.size(); ++n) find_numbers(graph_.nodes[n], flows_[n]);
    for (ValueId id : graph_.inputs) hold(id);
    for (ValueId id : graph_.outputs) hold(id);
    for (size_t n = flows_.size(); n-- > 0;) find_readers(graph_.nodes[n], flows_[n]);
    choose();
  }

  const std::vector<bool>& is_removed() const { return is_removed_; }
  const std::vector<double>& numbers() const { return numbers_; }

 private:
  enum class State : uint8_t { kUnseen, kNumber, kVaries };

  static size_t at(int64_t number) { return static_cast<size_t>(number); }

  bool is_number(int64_t channel) const { return states_[at(channel)] == State::kNumber; }
  bool is_zero(int64_t channel) const { return is_number(channel) && numbers_[at(channel)] == 0; }

  void set_number(int64_t channel, double number) {
    states_[at(channel)] = std::isfinite(number) ? State::kNumber : State::kVaries;
    numbers_[at(channel)] = static_cast<float>(number);
  }

  void find_numbers(const Node& node, const ChannelFlow& flow) {
    if (flow.kind == FlowKind::kOpaque) return;
    if (flow.kind == FlowKind::kProduct) return find_product_numbers(node, *flow.product);
    if (flow.kind == FlowKind::kPointwise) return find_pointwise_numbers(node, flow);
    if (flow.kind == FlowKind::kPad) find_padding(node);
    for (const ChannelLink& link : flow.links) {
      const double number = numbers_[at(link.in)];
      const bool is_first = states_[at(link.out)] == State::kUnseen;
      const bool fits = is_number(link.in) && (is_first || number == numbers_[at(link.out)]);
      if (fits && is_first && keeps_number(node, number))
        set_number(link.out, number);
      else if (!fits || is_first)
        states_[at(link.out)] = State::kVaries;
    }
  }

  // Whether a pool, Resize or Pad makes of a channel that is this number one that is the same number.
  bool keeps_number(const Node& node, double number) const {
    if (node.op == "AveragePool") return number == 0 || attr_int(node, "count_include_pad", 0) == 0 || borders_count_;
    if (node.op == "Resize") return number == 0 || attr_string(node, "mode", "nearest") != "cubic";
    if (node.op != "Pad") return true;
    const ChannelPad pad = *as_channel_pad(NodeView(graph_, node));
    const auto is_empty = [](const std::vector<int64_t>& pads) {
      return std::all_of(pads.begin() + 2, pads.end(), [](int64_t p) { return p <= 0; });
    };
    return number == pad.fill || (is_empty(pad.begin) && is_empty(pad.end)) || borders_count_;
  }

  void find_padding(const Node& node) {
    const ChannelPad pad = *as_channel_pad(NodeView(graph_, node));
    const int64_t count = channels_.count(node.inputs[0]);
    for (int64_t c = 0; c < channels_.count(node.outputs[0]); ++c) {
      const bool is_padding = c < pad.begin[1] || c >= pad.begin[1] + count;
      if (is_padding) set_number(channels_.number(node.outputs[0], c), pad.fill);
    }
  }

  void find_product_numbers(const Node& node, const ChannelProduct& product) {
    if (!product.bias) return;
    for (int64_t o = 0; o < product.out; ++o) {
      double number = (*product.bias)[at(o)];
      bool is_known = true;
      const int64_t first = product.first_in(o);
      const bool is_ignored = is_ignored_[at(channels_.number(node.outputs[0], o))];
      for (int64_t c = first; c < first + product.in_group() && is_known && !is_ignored; ++c) {
        const int64_t in = channels_.number(node.inputs[0], c);
        if (is_zero(in) || !product.has_weight(o, c)) continue;
        is_known = is_number(in) && takes_number(product);
        if (is_known) number += product.alpha * numbers_[at(in)] * product.sum(o, c);
      }
      if (is_known) set_number(channels_.number(node.outputs[0], o), number);
    }
  }

  // Whether an input channel that is a number other than 0 adds the same to every output element.
  bool takes_number(const ChannelProduct& product) const {
    return product.bias.has_value() && (product.is_even || borders_count_);
  }

  // Runs the node on one element a channel.
  void find_pointwise_numbers(const Node& node, const ChannelFlow& flow) {
    const auto is_input_number = [&](const ChannelLink& link) { return is_number(link.in); };
    if (std::none_of(flow.links.begin(), flow.links.end(), is_input_number)) return;
    const ValueId out = node.outputs[0];
    const int rank = graph_.value(out).shape.rank;
    std::vector<bool> is_known(at(channels_.count(out)), true), has_zero(at(channels_.count(out)), false);
    const int64_t first = channels_.number(out, 0);
    for (const ChannelLink& link : flow.links) {
      if (!is_number(link.in)) is_known[at(link.out - first)] = false;
      if (node.op == "Mul" && is_zero(link.in)) has_zero[at(link.out - first)] = true;
    }
    const std::optional<Tensor> result = run_on_numbers(node, rank);
    for (int64_t c = 0; c < channels_.count(out); ++c) {
      if (has_zero[at(c)]) {
        set_number(first + c, 0);
      } else if (result && is_known[at(c)]) {
        set_number(first + c, result->as<float>()[result->num_elements() == 1 ? 0 : c]);
      }
    }
  }

  // Nothing where an operand is not one number a channel. Channels that are not known count as 0.
  std::optional<Tensor> run_on_numbers(const Node& node, int rank) const {
    Graph small;
    Node copy = node;
    std::vector<Tensor> tensors(node.inputs.size());
    std::vector<const Tensor*> operands(node.inputs.size(), nullptr);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue) continue;
      const Value& value = graph_.value(id);
      if (value.constant != nullptr) {
        const int axis = 1 - (rank - value.shape.rank);
        for (int k = 0; k < value.shape.rank; ++k) {
          if (k != axis && value.shape[k] != 1) return std::nullopt;
        }
        tensors[i] = *value.constant;
        copy.inputs[i] = small.add_constant(value.name, *value.constant);
      } else {
        Shape shape;
        for (int k = 0; k < rank; ++k) shape.push_back(k == 1 ? channels_.count(id) : 1);
        tensors[i] = Tensor(DType::kF32, shape);
        for (int64_t c = 0; c < shape[1]; ++c) {
          const int64_t number = channels_.number(id, c);
          if (shape[1] == 1 && !is_number(number)) return std::nullopt;
          tensors[i].as<float>()[c] = is_number(number) ? static_cast<float>(numbers_[at(number)]) : 0.0f;
        }
        copy.inputs[i] = small.add_value(value.name, DType::kF32, shape);
      }
      operands[i] = &tensors[i];
    }
    copy.outputs = {small.add_value("out")};
    const Inference inference = infer_node(ops_, small, copy);
    if (!inference.ok() || inference.outputs[0].dtype != DType::kF32) return std::nullopt;
    small.value(copy.outputs[0]).dtype = inference.outputs[0].dtype;
    small.value(copy.outputs[0]).shape = inference.outputs[0].shape;
    Result<std::vector<Tensor>> result = evaluate_node(ops_, small, copy, operands);
    if (!result.ok()) return std::nullopt;
    return std::move(result.value()[0]);
  }

  void hold(ValueId id) {
    for (int64_t c = 0; c < channels_.count(id); ++c) {
      is_read_[at(channels_.number(id, c))] = true;
      is_fixed_[at(channels_.number(id, c))] = true;
    }
  }

  bool is_live(int64_t channel) const { return is_read_[at(channel)] && !is_number(channel); }

  void find_readers(const Node& node, const ChannelFlow& flow) {
    if (flow.kind == FlowKind::kOpaque) {
      for (ValueId id : node.inputs) hold(id);
      for (ValueId id : node.outputs) hold(id);
      return;
    }
    for (const ChannelLink& link : flow.links) join(link.in, link.out);
    for (int64_t channel : flow.fixed) is_read_[at(channel)] = is_fixed_[at(channel)] = true;
    if (flow.kind == FlowKind::kProduct) return find_product_readers(node, *flow.product);
    for (const ChannelLink& link : flow.links) {
      if (is_live(link.out)) is_read_[at(link.in)] = true;
    }
  }

  void find_product_readers(const Node& node, const ChannelProduct& product) {
    for (int64_t c = 0; c < product.in; ++c) {
      const int64_t in = channels_.number(node.inputs[0], c);
      const int64_t first = c / product.in_group() * product.out_group();
      bool is_read = false;
      for (int64_t o = first; o < first + product.out_group() && !is_read; ++o) {
        const int64_t out = channels_.number(node.outputs[0], o);
        is_read = is_live(out) && !is_ignored_[at(out)] && product.has_weight(o, c);
      }
      if (!is_read) continue;
      is_read_[at(in)] = true;
      if (is_number(in) && !is_zero(in) && !takes_number(product)) is_fixed_[at(in)] = true;
    }
  }

  int64_t root(int64_t channel) {
    while (parents_[at(channel)] != channel) {
      parents_[at(channel)] = parents_[at(parents_[at(channel)])];
      channel = parents_[at(channel)];
    }
    return channel;
  }
  void join(int64_t a, int64_t b) { parents_[at(root(a))] = root(b); }

  void choose() {
    std::vector<bool> stays(states_.size(), false);  // by root
    for (int64_t c = 0; c < channels_.size(); ++c) {
      if (is_fixed_[at(c)] || is_live(c)) stays[at(root(c))] = true;
    }
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      const auto value = static_cast<ValueId>(id);
      bool any = channels_.count(value) == 0;
      for (int64_t c = 0; c < channels_.count(value) && !any; ++c) any = stays[at(root(channels_.number(value, c)))];
      if (!any) stays[at(root(channels_.number(value, 0)))] = true;
    }
    is_removed_.assign(states_.size(), false);
    for (int64_t c = 0; c < channels_.size(); ++c) is_removed_[at(c)] = !stays[at(root(c))];
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  const ChannelNumbers& channels_;
  const std::vector<ChannelFlow>& flows_;
  const bool borders_count_;
  std::vector<bool> is_ignored_;
  std::vector<State> states_;    // by channel: kNumber where it is the same at every element
  std::vector<double> numbers_;  // that number
  std::vector<bool> is_read_;
  std::vector<bool> is_fixed_;
  std::vector<int64_t> parents_;
  std::vector<bool> is_removed_;
};

float largest_weight(const ChannelProduct& product) {
  float largest = 0;
  for (int64_t o = 0; o < product.out; ++o) largest = std::max(largest, product.largest(o));
  return largest;
}

// Whether some output channel has no weights, or some input channel none that reads it.
bool has_empty_channel(const ChannelProduct& product) {
  const auto reads = [&](int64_t o, int64_t c) { return product.has_weight(o, c); };
  for (int64_t o = 0; o < product.out; ++o) {
    int64_t c = product.first_in(o);
    while (c < product.first_in(o) + product.in_group() && !reads(o, c)) ++c;
    if (c == product.first_in(o) + product.in_group()) return true;
  }
  for (int64_t c = 0; c < product.in; ++c) {
    const int64_t first = c / product.in_group() * product.out_group();
    int64_t o = first;
    while (o < first + product.out_group() && !reads(o, c)) ++o;
    if (o == first + product.out_group()) return true;
  }
  return false;
}

// Multiply-accumulates of convolutions and matrix products.
int64_t count_product_macs(const Graph& graph) {
  int64_t macs = 0;
  for (const Node& node : graph.nodes) {
    const bool is_transposed = node.op == "ConvTranspose";
    const bool is_conv = node.op == "Conv" || is_transposed;
    if (!node.domain.empty() || (!is_conv && node.op != "Gemm" && node.op != "MatMul")) continue;
    const Shape& x = graph.value(node.inputs[0]).shape;
    const Shape& w = graph.value(node.inputs[1]).shape;
    const Shape& y = graph.value(node.outputs[0]).shape;
    if (is_conv) {
      macs += (is_transposed ? x : y).num_elements() * (w[0] > 0 ? w.num_elements() / w[0] : 0);
    } else if (x.rank > 0) {
      macs += y.num_elements() * x[x.rank == 1 || attr_int(node, "transA", 0) == 0 ? x.rank - 1 : 0];
    }
  }
  return macs;
}

struct Pruner {
  Graph& graph;
  const ChannelNumbers channels;
  std::vector<ChannelFlow> flows;
  std::vector<bool> is_ignored;         // by channel number
  std::vector<float> largest_by_layer;  // by node; of |weights|

  Pruner(Graph& g, const OpRegistry& ops) : graph(g), channels(g), is_ignored(static_cast<size_t>(channels.size())) {
    for (const Node& node : graph.nodes) flows.push_back(find_channel_flow(ops, NodeView(graph, node), channels));
    largest_by_layer.resize(flows.size());
  }

  template <typename Visit>
  void for_each_product(Visit visit) {
    for (size_t n = 0; n < flows.size(); ++n) {
      if (flows[n].product) visit(n, *flows[n].product, graph.nodes[n].outputs[0]);
    }
  }

  void ignore_small_weights() {
    for_each_product([&](size_t n, const ChannelProduct& product, ValueId out) {
      largest_by_layer[n] = largest_weight(product);
      const double limit = graph.pruning.threshold * largest_by_layer[n];
      for (int64_t o = 0; o < product.out; ++o) {
        is_ignored[static_cast<size_t>(channels.number(out, o))] = product.largest(o) <= limit;
      }
    });
  }

  // Weights count again where their channel did not go after all; whether there are any.
  bool keep_weights_of_what_stays(const std::vector<bool>& is_removed) {
    bool any = false;
    for (size_t c = 0; c < is_ignored.size(); ++c) {
      any = any || (is_ignored[c] && !is_removed[c]);
      is_ignored[c] = is_ignored[c] && is_removed[c];
    }
    return any;
  }

  int report(const std::vector<bool>& is_removed) {
    int64_t total = 0;
    for_each_product([&](size_t n, const ChannelProduct& product, ValueId out) {
      const Node& node = graph.nodes[n];
      Pruning::Layer layer{node.name.empty() ? graph.value(out).name : node.name, product.out, 0};
      for (int64_t o = 0; o < product.out; ++o) {
        const auto number = static_cast<size_t>(channels.number(out, o));
        layer.removed += is_removed[number];
        if (!is_removed[number] || !is_ignored[number] || largest_by_layer[n] == 0) continue;
        const double share = double{product.largest(o)} / largest_by_layer[n];
        graph.pruning.largest_removed = std::max(graph.pruning.largest_removed, share);
      }
      total += layer.removed;
      if (layer.removed > 0) graph.pruning.layers.push_back(std::move(layer));
    });
    return static_cast<int>(total);
  }
};

}  // namespace

Result<int> prune_channels(Graph& graph, const OpRegistry& ops) {
  const bool has_threshold = graph.pruning.threshold > 0;
  const auto is_worth_it = [&](const Node& node) {
    const auto product = as_channel_product(NodeView(graph, node));
    return product && (has_threshold || has_empty_channel(*product));
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_worth_it)) return 0;
  if (ChannelNumbers(graph).size() > kMostChannels) return 0;
  Pruner pruner(graph, ops);
  if (has_threshold) pruner.ignore_small_weights();
  ChannelAnalysis analysis(graph, ops, pruner.channels, pruner.flows, has_threshold);
  do {
    analysis.run(pruner.is_ignored);
  } while (pruner.keep_weights_of_what_stays(analysis.is_removed()));

  const std::vector<bool>& is_removed = analysis.is_removed();
  if (std::find(is_removed.begin(), is_removed.end(), true) == is_removed.end()) return 0;
  graph.pruning.macs_before = count_product_macs(graph);
  const int removed = pruner.report(is_removed);
  KILN_TRY(narrow_channels(graph, ops, pruner.channels, pruner.flows, is_removed, analysis.numbers()));
  graph.pruning.macs_after = count_product_macs(graph);
  return removed;
}

}  // namespace kiln
