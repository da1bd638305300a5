#include "quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "passes/match.h"
#include "quant/ranges.h"
#include "quant/roles.h"
#include "quant/times.h"

namespace kiln {
namespace {

// Concat inputs whose ranges are within this factor of the output's take its scale, so that nothing is copied; the
// others keep their own and are rescaled.
constexpr double kJoinFactor = 2;

class Quantizer {
 public:
  Quantizer(Graph& graph, const OpRegistry& ops) : rewriter_(graph, ops), job_(*graph.quant) {}

  Result<int> run() {
    const auto num_nodes = static_cast<size_t>(rewriter_.num_nodes());
    roles_.resize(num_nodes);
    for (size_t n = 0; n < num_nodes; ++n) roles_[n] = role_of(view(n), rewriter_.ops());
    job_.observed.clear();
    job_.layers.clear();
    job_.head.clear();
    job_.notices.clear();
    const std::vector<ValueId> interesting = values_of_interest();
    if (job_.quantizes) {
      KILN_TRY(check_names());
      find_head();
      choose_nodes();
      KILN_TRY(group_scales());
      equalize();
      for (size_t n = 0; n < num_nodes; ++n) {
        if (product_macs(view(n)) > 0) report(n);
      }
      for (size_t n = 0; n < num_nodes; ++n) {
        if (is_int8_[n] && roles_[n] == Role::kProduct) KILN_TRY(quantize_weights(n));
      }
      insert_scales();
    }
    if (job_.observes) observe(interesting);
    KILN_TRY(rewriter_.finish());
    return static_cast<int>(std::count(is_int8_.begin(), is_int8_.end(), true));
  }

 private:
  Graph& graph() { return rewriter_.graph(); }
  NodeView view(size_t n) { return rewriter_.view(static_cast<int>(n)); }
  const Node& node(size_t n) { return rewriter_.node(static_cast<int>(n)); }
  int producer(ValueId id) { return rewriter_.producer(id); }

  // What readers call a node: its name, or its first output's.
  std::string name_of(size_t n) {
    return node(n).name.empty() ? rewriter_.value(node(n).outputs[0]).name : node(n).name;
  }

  // Inputs and outputs of everything that could run in int8.
  std::vector<ValueId> values_of_interest() {
    std::vector<ValueId> values;
    std::set<ValueId> seen;
    const auto add = [&](ValueId id) {
      if (seen.insert(id).second) values.push_back(id);
    };
    for (size_t n = 0; n < roles_.size(); ++n) {
      for (size_t i : data_inputs(view(n), roles_[n])) add(node(n).inputs[i]);
      if (roles_[n] == Role::kFloat) continue;
      for (ValueId id : node(n).outputs) {
        if (id != kNoValue) add(id);
      }
    }
    return values;
  }

  Status check_names() {
    for (const std::string& wanted : job_.keep_float) {
      bool found = false;
      for (size_t n = 0; n < roles_.size(); ++n) found = found || (product_macs(view(n)) > 0 && name_of(n) == wanted);
      if (found) continue;
      std::string names;
      int count = 0;
      for (size_t n = 0; n < roles_.size() && count < 8; ++n) {
        if (roles_[n] != Role::kProduct) continue;
        names += (names.empty() ? "'" : ", '") + name_of(n) + "'";
        ++count;
      }
      return {Code::kInvalidArgument, "--keep-float " + wanted +
                                          ": no convolution or product has this name; allowed: " + names +
                                          (count == 8 ? ", …" : "")};
    }
    return {};
  }

  // Products that reach an output of rank 3 or more without another one between, but for those of a few channels
  // (YOLOv8's expectation over bins).
  void find_head() {
    std::vector<bool> seen(roles_.size(), false);
    std::vector<ValueId> next;
    for (ValueId id : graph().outputs) {
      if (rewriter_.value(id).shape.rank >= 3) next.push_back(id);
    }
    while (!next.empty()) {
      const ValueId id = next.back();
      next.pop_back();
      const int n = id == kNoValue ? -1 : producer(id);
      if (n < 0 || seen[static_cast<size_t>(n)]) continue;
      seen[static_cast<size_t>(n)] = true;
      if (roles_[static_cast<size_t>(n)] == Role::kProduct) {
        head_.insert(static_cast<size_t>(n));
        const Shape& y = rewriter_.value(node(static_cast<size_t>(n)).outputs[0]).shape;
        if (y[y.rank - 1] > 1) continue;
      }
      const Node& from = node(static_cast<size_t>(n));
      next.insert(next.end(), from.inputs.begin(), from.inputs.end());
    }
    for (size_t n : head_) job_.head.push_back(name_of(n));
  }

  std::string why_float(size_t n) {
    if (roles_[n] != Role::kProduct) {
      return view(n).constant(1) == nullptr ? "unsupported: weights are computed at run time"
                                            : "unsupported: this form has no int8 kernel";
    }
    if (std::find(job_.keep_float.begin(), job_.keep_float.end(), name_of(n)) != job_.keep_float.end()) {
      return "keep-float";
    }
    if (head_.count(n) > 0 && !job_.quantizes_head) return "head";
    const PredictedTimes times = predict_times(view(n));
    return times.int8_us > times.float_us ? "slower in int8" : "";
  }

  void choose_nodes() {
    is_int8_.assign(roles_.size(), false);
    for (size_t n = 0; n < roles_.size(); ++n) {
      is_int8_[n] = roles_[n] == Role::kProduct && why_float(n).empty();
    }
    // Between them: what has an int8 product above and one below, through nodes of its kind.
    std::vector<bool> below(roles_.size(), false);
    std::vector<bool> above(roles_.size(), false);
    for (size_t n = 0; n < roles_.size(); ++n) {
      if (!can_follow(n)) continue;
      for (size_t i : data_inputs(view(n), roles_[n])) {
        const int from = producer(node(n).inputs[i]);
        if (from < 0) {  // a graph input: moved as bytes
          above[n] = above[n] || roles_[n] == Role::kMove;
          continue;
        }
        const auto p = static_cast<size_t>(from);
        above[n] = above[n] || is_int8_[p] || (can_follow(p) && above[p]);
      }
    }
    for (size_t n = roles_.size(); n-- > 0;) {
      if (!can_follow(n)) continue;
      for (ValueId id : node(n).outputs) {
        if (id == kNoValue) continue;
        for (int reader : rewriter_.consumers(id)) {
          const auto r = static_cast<size_t>(reader);
          below[n] = below[n] || (is_int8_[r] && takes_data(r, id)) || (can_follow(r) && below[r]);
        }
      }
    }
    for (size_t n = 0; n < roles_.size(); ++n) is_int8_[n] = is_int8_[n] || (above[n] && below[n]);
  }

  bool can_follow(size_t n) { return roles_[n] != Role::kFloat && roles_[n] != Role::kProduct; }

  bool takes_data(size_t n, ValueId id) {
    const std::vector<size_t> inputs = data_inputs(view(n), roles_[n]);
    return std::any_of(inputs.begin(), inputs.end(), [&](size_t i) { return node(n).inputs[i] == id; });
  }

  bool is_quantized(ValueId id) { return id != kNoValue && group_of_[static_cast<size_t>(id)] >= 0; }

  // ---- scales: values that only move into each other share one ----

  ValueId root(ValueId id) {
    ValueId at = id;
    while (group_of_[static_cast<size_t>(at)] != at) at = group_of_[static_cast<size_t>(at)];
    group_of_[static_cast<size_t>(id)] = at;
    return at;
  }

  void join(ValueId a, ValueId b) { group_of_[static_cast<size_t>(root(a))] = root(b); }

  Result<const ValueStats*> stats_of(ValueId id) {
    const std::string& name = rewriter_.value(id).name;
    const auto found = job_.stats.values.find(name);
    if (found != job_.stats.values.end()) return &found->second;
    return Status{Code::kInvalidArgument, "the calibration statistics have no value '" + name +
                                              "': they were made from another model, shape or version"};
  }

  Status group_scales() {
    group_of_.assign(graph().values.size(), -1);
    for (size_t n = 0; n < roles_.size(); ++n) {
      if (!is_int8_[n]) continue;
      for (size_t i : data_inputs(view(n), roles_[n])) {
        const ValueId id = node(n).inputs[i];
        group_of_[static_cast<size_t>(id)] = id;
      }
    }
    for (size_t n = 0; n < roles_.size(); ++n) {
      if (!is_int8_[n] || (roles_[n] != Role::kMove && roles_[n] != Role::kJoin)) continue;
      for (ValueId out : node(n).outputs) {
        if (out == kNoValue) continue;
        if (group_of_[static_cast<size_t>(out)] < 0) group_of_[static_cast<size_t>(out)] = out;
        for (size_t i : data_inputs(view(n), roles_[n])) {
          const ValueId in = node(n).inputs[i];
          if (roles_[n] == Role::kJoin) {
            KILN_ASSIGN(const bool is_near, ranges_are_near(in, out));
            if (!is_near) continue;
          }
          join(in, out);
        }
      }
    }
    // A group's range is that of its member with the widest one.
    for (size_t v = 0; v < group_of_.size(); ++v) {
      if (group_of_[v] < 0) continue;
      const auto id = static_cast<ValueId>(v);
      KILN_ASSIGN(const ValueStats* stats, stats_of(id));
      const Range range = choose_range(*stats, job_.method);
      Range& group = ranges_[root(id)];
      group.low = std::min(group.low, range.low);
      group.high = std::max(group.high, range.high);
    }
    return {};
  }

  // ---- channels of very different ranges: each is scaled before it is rounded, and back in its readers' weights ----

  // An int8 product without residual makes it, and int8 products alone read it, as their input.
  bool can_equalize(ValueId id) {
    const int maker = producer(id);
    if (maker < 0 || rewriter_.is_output(id) || rewriter_.consumers(id).empty()) return false;
    const auto m = static_cast<size_t>(maker);
    if (!is_int8_[m] || roles_[m] != Role::kProduct || view(m).has_input(3)) return false;
    for (int reader : rewriter_.consumers(id)) {
      const auto r = static_cast<size_t>(reader);
      if (!is_int8_[r] || roles_[r] != Role::kProduct || node(r).inputs[0] != id) return false;
      if (std::count(node(r).inputs.begin(), node(r).inputs.end(), id) != 1) return false;
    }
    return true;
  }

  // What rounding does to the sums of the readers of `id`, as a variance: of x, whose channels are scaled by `gains`
  // into `range`, and of the weights, which are scaled back. Values of a channel are taken to reach three deviations.
  double rounding_noise(ValueId id, const std::vector<double>& reach, const std::vector<double>& gains,
                        const Range& range) {
    const double x_step = (range.high - range.low) / 255;
    double noise = 0;
    for (int reader : rewriter_.consumers(id)) {
      const auto r = static_cast<size_t>(reader);
      const float* w = view(r).constant(1)->as<float>();
      const auto filters = static_cast<size_t>(view(r).constant(1)->shape()[filter_axis(r)]);
      std::vector<double> largest(filters, 0);
      std::vector<double> power(filters, 0);
      for_each_weight(r, [&](int64_t o, int64_t channel, int64_t place) {
        const auto c = static_cast<size_t>(channel);
        const double value = w[place] / gains[c];
        const double deviation = reach[c] * gains[c] / 3;
        noise += x_step * x_step * value * value;
        largest[static_cast<size_t>(o)] = std::max(largest[static_cast<size_t>(o)], std::fabs(value));
        power[static_cast<size_t>(o)] += deviation * deviation;
      });
      for (size_t o = 0; o < filters; ++o) noise += largest[o] * largest[o] / (127.0 * 127) * power[o];
    }
    return noise;
  }

  // Scales channels towards one range, as far as rounding of x and of the weights together gains from it: all the way
  // where depthwise convolutions read them, whose weights have a scale a channel.
  void equalize() {
    constexpr double kMostGain = 256;
    constexpr double kWorth = 0.8;  // of the noise without
    for (size_t v = 0; v < group_of_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (group_of_[v] < 0 || !can_equalize(id)) continue;
      const auto found = job_.stats.values.find(rewriter_.value(id).name);
      if (found == job_.stats.values.end()) continue;
      const ValueStats& stats = found->second;
      const Shape& shape = rewriter_.value(id).shape;
      const auto channels = static_cast<size_t>(shape[shape.rank - 1]);
      if (stats.channel_max.size() != channels || stats.channel_min.size() != channels) continue;
      const Range whole = ranges_[root(id)];
      const double widest = std::max(whole.high, -whole.low);
      if (!(widest > 0)) continue;
      std::vector<double> reach(channels);
      for (size_t c = 0; c < channels; ++c) {
        reach[c] = std::max(std::min(stats.channel_max[c], whole.high), -std::max(stats.channel_min[c], whole.low));
        reach[c] = std::max(reach[c], widest / kMostGain);
      }
      std::vector<double> gains(channels, 1);
      double least = kWorth * rounding_noise(id, reach, gains, whole);
      for (double power : {0.25, 0.5, 0.75, 1.0}) {
        // How far the lower ends may reach: where they are short, as of SiLU, large gains would make them long.
        for (double share : {1.0, 0.5, 0.25, 0.1}) {
          Range after;
          for (size_t c = 0; c < channels; ++c) {
            const double low = std::max(stats.channel_min[c], whole.low);
            const double high = std::min(stats.channel_max[c], whole.high);
            gains[c] = std::pow(widest / reach[c], power);
            if (low < 0) gains[c] = std::max(1.0, std::min(gains[c], share * widest / -low));
            after.low = std::min(after.low, low * gains[c]);
            after.high = std::max(after.high, high * gains[c]);
          }
          const double noise = rounding_noise(id, reach, gains, after);
          if (noise >= least) continue;
          least = noise;
          gains_[id] = gains;
          ranges_[root(id)] = after;
        }
      }
    }
  }

  double gain_of(ValueId id, int64_t channel) {
    const auto found = gains_.find(id);
    return found == gains_.end() ? 1 : found->second[static_cast<size_t>(channel)];
  }

  // body(filter, channel of x, place in the constant) for every weight of a product.
  template <typename Body>
  void for_each_weight(size_t n, const Body& body) {
    const NodeView product = view(n);
    const Shape& w = product.constant(1)->shape();
    const int axis = filter_axis(n);
    const int64_t filters = w[axis];
    const int64_t depth = w.num_elements() / filters;
    const bool is_conv = product.node().op == "Conv";
    const int64_t group = is_conv ? product.attr_int("group", 1) : 1;
    const int64_t channels = is_conv ? w[1] : depth;
    for (int64_t o = 0; o < filters; ++o) {
      for (int64_t i = 0; i < depth; ++i) {
        const int64_t channel = is_conv ? o / (filters / group) * channels + i / (depth / channels) : i;
        body(o, channel, axis == 0 ? o * depth + i : i * filters + o);
      }
    }
  }

  Result<bool> ranges_are_near(ValueId in, ValueId out) {
    KILN_ASSIGN(const ValueStats* a, stats_of(in));
    KILN_ASSIGN(const ValueStats* b, stats_of(out));
    const Range from = choose_range(*a, job_.method);
    const Range to = choose_range(*b, job_.method);
    return (to.high - to.low) <= kJoinFactor * (from.high - from.low);
  }

  ByteScale scale_of(ValueId id) { return scale_of_range(ranges_[root(id)]); }

  // ---- weights ----

  // Filters along axis 0 of Conv and transposed Gemm, 1 of others.
  int filter_axis(size_t n) {
    const NodeView product = view(n);
    if (product.node().op == "Conv") return 0;
    return product.node().op == "Gemm" && product.attr_int("transB", 0) != 0 ? 0 : 1;
  }

  Status quantize_weights(size_t n) {
    const NodeView product = view(n);
    const Tensor& w = *product.constant(1);
    const int axis = filter_axis(n);
    const int64_t filters = w.shape()[axis];
    const ValueId x = product.node().inputs[0];
    const ByteScale x_scale = scale_of(x);
    const bool is_conv = product.node().op == "Conv";
    std::vector<double> bias(static_cast<size_t>(filters), 0);
    if (product.has_input(2)) {
      const int rank = is_conv ? 1 : 2;
      const auto given = channel_constant(graph(), product.node().inputs[2], rank, rank - 1, filters);
      if (given) bias = *given;
    }
    KILN_ASSIGN(const ValueStats* stats, stats_of(x));
    const Shape& x_shape = product.input_shape(0);
    const bool has_means = static_cast<int64_t>(stats->channel_mean.size()) == x_shape[x_shape.rank - 1];

    // What is rounded are the weights of the scaled channels.
    std::vector<double> largest(static_cast<size_t>(filters), 0);
    for_each_weight(n, [&](int64_t o, int64_t channel, int64_t place) {
      double& most = largest[static_cast<size_t>(o)];
      most = std::max(most, std::fabs(w.as<float>()[place] / gain_of(x, channel)));
    });
    auto record = std::make_shared<QuantizedConstant>();
    auto values = std::make_shared<Tensor>(DType::kI8, w.shape());
    auto scales = std::make_shared<Tensor>(DType::kF32, Shape{filters});
    Tensor rounded(DType::kF32, w.shape());
    for (int64_t o = 0; o < filters; ++o) {
      // The bias must fit 30 bits in units of both scales.
      const double least = std::fabs(bias[static_cast<size_t>(o)]) / (double{x_scale.scale} * (1 << 29));
      scales->as<float>()[o] = static_cast<float>(std::max({largest[static_cast<size_t>(o)] / 127, least, 1e-12}));
    }
    for_each_weight(n, [&](int64_t o, int64_t channel, int64_t place) {
      const float scale = scales->as<float>()[o];
      const double gain = gain_of(x, channel);
      const double value = w.as<float>()[place] / gain;
      const auto level = static_cast<int8_t>(std::clamp(std::nearbyint(value / scale), -127.0, 127.0));
      values->as<int8_t>()[place] = level;
      rounded.as<float>()[place] = static_cast<float>(level) * scale;
      if (!has_means) return;
      const double mean = stats->channel_mean[static_cast<size_t>(channel)] * gain;
      bias[static_cast<size_t>(o)] -= (double{rounded.as<float>()[place]} - value) * mean;
    });
    record->values = values;
    record->scale = scales;
    record->axis = axis;
    const std::string base = name_of(n);
    const ValueId weights = rewriter_.add_constant(base + ".int8_weights", std::move(rounded));
    rewriter_.value(weights).quantized = record;
    const auto at = static_cast<int>(n);
    rewriter_.set_input(at, 1, weights);
    if (!is_conv && product.node().op == "MatMul") return {};  // has no bias
    const ValueId corrected = rewriter_.add_constant(base + ".int8_bias", make_f32(Shape{filters}, bias));
    std::vector<ValueId> inputs = node(n).inputs;
    if (inputs.size() < 3) inputs.resize(3, kNoValue);
    inputs[2] = corrected;
    rewriter_.set_inputs(at, inputs);
    return {};
  }

  // ---- QuantizeLinear -> DequantizeLinear behind every value in a scale ----

  ValueId scale_constant(const ByteScale& scale, ValueId* zero) {
    const std::string key = strf("%a,%d", double{scale.scale}, scale.zero);
    const auto [place, is_new] = constants_.emplace(key, std::pair(kNoValue, kNoValue));
    if (is_new) {
      Tensor zero_point(DType::kU8, Shape{});
      *zero_point.as<uint8_t>() = static_cast<uint8_t>(scale.zero);
      place->second = {rewriter_.add_constant("scale", make_f32_scalar(scale.scale)),
                       rewriter_.add_constant("zero_point", std::move(zero_point))};
    }
    *zero = place->second.second;
    return place->second.first;
  }

  // real -> `scale` -> real; what it makes.
  ValueId add_pair(ValueId from, const ByteScale& scale, int anchor, const std::string& name) {
    const Value value = rewriter_.value(from);
    ValueId zero = kNoValue;
    const ValueId scale_id = scale_constant(scale, &zero);
    const ValueId bytes = rewriter_.add_value(value.name + ".u8", DType::kU8, value.shape);
    const ValueId real = rewriter_.add_value(name, DType::kF32, value.shape);
    const auto add = [&](Node made) {
      if (anchor >= 0)
        rewriter_.add_node_after(anchor, std::move(made));
      else
        rewriter_.add_node_before(0, std::move(made));
    };
    add(make_node("QuantizeLinear", 13, value.name + ".quantize", {from, scale_id, zero}, bytes));
    add(make_node("DequantizeLinear", 13, value.name + ".dequantize", {bytes, scale_id, zero}, real));
    return real;
  }

  void insert_scales() {
    const size_t num_values = group_of_.size();
    const size_t num_nodes = roles_.size();
    for (size_t v = 0; v < num_values; ++v) {
      const auto id = static_cast<ValueId>(v);
      if (group_of_[v] < 0) continue;
      const std::vector<int> readers = rewriter_.consumers(id);
      const std::string name = rewriter_.value(id).name;
      const bool keeps_name = rewriter_.is_output(id) || rewriter_.is_input(id);
      if (!keeps_name) rewriter_.value(id).name = name + ".float";
      const bool is_scaled = gains_.count(id) > 0;
      const ValueId from = is_scaled ? multiply(id, id, name + ".scaled", false) : id;
      const ValueId real =
          add_pair(from, scale_of(id), producer(id), keeps_name || is_scaled ? name + ".dequantized" : name);
      if (!keeps_name && !is_scaled) rewriter_.value(real).name = name;  // it was taken when add_pair asked for it
      for (int reader : readers) {
        for (size_t i = 0; i < rewriter_.node(reader).inputs.size(); ++i) {
          if (rewriter_.input(reader, i) == id) rewriter_.set_input(reader, i, real);
        }
      }
      replaced_[id] = real;
      if (is_scaled && job_.observes) shown_[id] = multiply(id, real, name, true);
    }
    // Concat inputs of another scale are brought to the output's.
    for (size_t n = 0; n < num_nodes; ++n) {
      if (!is_int8_[n] || roles_[n] != Role::kJoin) continue;
      const ValueId out = node(n).outputs[0];
      for (size_t i = 0; i < node(n).inputs.size(); ++i) {
        const ValueId real = node(n).inputs[i];
        const ValueId in = original(real);
        if (in == kNoValue || root(in) == root(out)) continue;
        const ValueId rescaled =
            add_pair(real, scale_of(out), producer(real), rewriter_.value(real).name + ".rescaled");
        rewriter_.set_input(static_cast<int>(n), i, rescaled);
      }
    }
  }

  // `from` times the gains of the channels of `id`, or back.
  ValueId multiply(ValueId id, ValueId from, const std::string& name, bool back) {
    const Value value = rewriter_.value(from);
    std::vector<double> factors = gains_.at(id);
    for (double& factor : factors) factor = back ? 1 / factor : factor;
    const ValueId constant =
        rewriter_.add_constant(name + ".gain", make_f32(Shape{static_cast<int64_t>(factors.size())}, factors));
    const ValueId made = rewriter_.add_value(name, DType::kF32, value.shape);
    rewriter_.value(made).name = name;  // free by now, though taken when it was asked for
    rewriter_.add_node_after(producer(from), make_node("Mul", 13, name, {from, constant}, made));
    return made;
  }

  ValueId original(ValueId real) {
    for (const auto& [id, made] : replaced_) {
      if (made == real) return id;
    }
    return kNoValue;
  }

  // ---- what is told ----

  void report(size_t n) {
    const NodeView product = view(n);
    QuantLayer layer;
    layer.name = name_of(n);
    layer.op = product.node().op;
    layer.input = product.input(0).name;
    layer.output = product.output(0).name;
    layer.macs = product_macs(product);
    layer.is_int8 = is_int8_[n];
    if (!layer.is_int8) layer.reason = why_float(n);
    const PredictedTimes times = predict_times(product);
    layer.int8_us = times.int8_us;
    layer.float_us = times.float_us;
    const ValueId x = product.node().inputs[0];
    const ValueId y = product.node().outputs[0];
    if (is_quantized(x)) layer.input_scale = double{scale_of(x).scale};
    if (is_quantized(y)) {
      const ByteScale scale = scale_of(y);
      layer.scale = double{scale.scale};
      layer.zero_point = scale.zero;
      const auto found = job_.stats.values.find(layer.output);
      if (found != job_.stats.values.end()) layer.clipped = clipped_share(found->second, ranges_[root(y)]);
    }
    job_.layers.push_back(std::move(layer));
  }

  void observe(const std::vector<ValueId>& interesting) {
    for (const ValueId id : interesting) {
      const auto found = replaced_.find(id);
      const bool has_name = rewriter_.is_output(id) || rewriter_.is_input(id);
      const auto again = shown_.find(id);
      const ValueId shown = again != shown_.end()                   ? again->second
                            : found != replaced_.end() && !has_name ? found->second
                                                                    : id;
      if (std::find(graph().outputs.begin(), graph().outputs.end(), shown) == graph().outputs.end()) {
        added_outputs_.push_back(shown);
      }
      job_.observed.push_back(rewriter_.value(shown).name);
    }
    graph().outputs.insert(graph().outputs.end(), added_outputs_.begin(), added_outputs_.end());
  }

  Rewriter rewriter_;
  QuantJob& job_;
  std::vector<Role> roles_;
  std::vector<bool> is_int8_;
  std::set<size_t> head_;
  std::vector<ValueId> group_of_;                 // by value: another of its group, itself, or -1 if it stays real
  std::map<ValueId, Range> ranges_;               // by root
  std::map<ValueId, std::vector<double>> gains_;  // a channel
  std::map<ValueId, ValueId> shown_;              // scaled values -> what they are in real numbers
  std::map<ValueId, ValueId> replaced_;           // value -> what its readers read now
  std::map<std::string, std::pair<ValueId, ValueId>> constants_;
  std::vector<ValueId> added_outputs_;
};

}  // namespace

Result<int> quantize(Graph& graph, const OpRegistry& ops) {
  if (graph.quant == nullptr) return 0;
  return Quantizer(graph, ops).run();
}

}  // namespace kiln
