#include "passes/fuse_quantized.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/activation.h"
#include "passes/match.h"

namespace kiln {
namespace {

// A scale of a whole tensor: real = (value - zero) * scale.
struct Scale {
  float scale = 0;
  int32_t zero = 0;
  DType dtype = DType::kInvalid;  // kU8 or kI8
  ValueId scale_id = kNoValue, zero_id = kNoValue;

  bool operator==(const Scale& other) const {
    return scale == other.scale && zero == other.zero && dtype == other.dtype;
  }
};

struct Dequantized {
  ValueId value = kNoValue;  // the 8-bit numbers
  Scale scale;
};

bool is_byte(DType dtype) { return dtype == DType::kU8 || dtype == DType::kI8; }

class Fuser {
 public:
  Fuser(Graph& graph, const OpRegistry& ops) : rewriter_(graph, ops) {}

  Result<int> run() {
    int changes = 0;
    for (bool again = true; again;) {
      again = false;
      for (int n = 0; n < rewriter_.num_nodes(); ++n) {
        if (!rewriter_.is_dead(n) && sink(n)) again = true;
      }
    }
    for (int n = 0; n < rewriter_.num_nodes(); ++n) {
      if (rewriter_.is_dead(n) || !is_plain(n)) continue;
      KILN_ASSIGN(const bool done, fuse(n));
      changes += done;
    }
    for (int n = 0; n < rewriter_.num_nodes(); ++n) {
      if (!rewriter_.is_dead(n)) join_scales(n);
    }
    KILN_TRY(rewriter_.finish());
    return changes;
  }

 private:
  Graph& graph() { return rewriter_.graph(); }
  bool is_plain(int n) { return rewriter_.node(n).domain.empty() || rewriter_.node(n).domain == "kiln"; }

  // The scale of a QuantizeLinear or DequantizeLinear node, if it is one constant.
  std::optional<Scale> scale_of(int n) {
    const NodeView node = rewriter_.view(n);
    const Tensor* scale = node.constant(1);
    if (scale == nullptr || scale->num_elements() != 1 || scale->dtype() != DType::kF32) return std::nullopt;
    if (node.has_attr("block_size") && node.attr_int("block_size", 0) != 0) return std::nullopt;
    Scale result;
    result.scale = scale->as<float>()[0];
    if (!(result.scale > 0) || !std::isfinite(result.scale)) return std::nullopt;
    result.dtype = rewriter_.is_op(n, "DequantizeLinear") ? node.input_dtype(0) : node.output(0).dtype;
    if (!is_byte(result.dtype)) return std::nullopt;
    result.scale_id = node.node().inputs[1];
    if (node.has_input(2)) {
      const Tensor* zero = node.constant(2);
      if (zero == nullptr || zero->num_elements() != 1) return std::nullopt;
      result.zero = static_cast<int32_t>(element_as_i64(zero->dtype(), zero->data(), 0));
      result.zero_id = node.node().inputs[2];
    }
    return result;
  }

  // What `id` was dequantised from.
  std::optional<Dequantized> dequantized(ValueId id) {
    if (id == kNoValue) return std::nullopt;
    const int n = rewriter_.producer(id);
    if (n < 0 || !rewriter_.is_op(n, "DequantizeLinear") || !is_f32(graph(), id)) return std::nullopt;
    const std::optional<Scale> scale = scale_of(n);
    if (!scale) return std::nullopt;
    return Dequantized{rewriter_.input(n, 0), *scale};
  }

  // The scale in which all readers of `id` quantise it.
  std::optional<Scale> quantized(ValueId id) {
    if (rewriter_.is_output(id) || rewriter_.consumers(id).empty()) return std::nullopt;
    std::optional<Scale> common;
    for (int n : rewriter_.consumers(id)) {
      if (!rewriter_.is_op(n, "QuantizeLinear") || rewriter_.input(n, 0) != id) return std::nullopt;
      const std::optional<Scale> scale = scale_of(n);
      if (!scale || (common && !(*common == *scale))) return std::nullopt;
      common = scale;
    }
    return common;
  }

  // Takes the QuantizeLinear nodes behind `id` out; what the first of them made is what a new node is to make.
  ValueId take_quantized(ValueId id) {
    const std::vector<int> readers = rewriter_.consumers(id);
    const ValueId first = rewriter_.output(readers[0]);
    for (size_t i = 1; i < readers.size(); ++i) {
      const ValueId other = rewriter_.output(readers[i]);
      if (rewriter_.is_output(other)) continue;  // stays a QuantizeLinear of its own: refused before
      rewriter_.replace_uses(other, first);
      rewriter_.remove(readers[i]);
    }
    rewriter_.remove(readers[0]);
    return first;
  }

  // Several QuantizeLinear of one value of which a later one is a graph output: rare, left alone.
  bool can_take(ValueId id) {
    const std::vector<int>& readers = rewriter_.consumers(id);
    for (size_t i = 1; i < readers.size(); ++i) {
      if (rewriter_.is_output(rewriter_.output(readers[i]))) return false;
    }
    return true;
  }

  // ---- 1. what only moves numbers ----

  // How many of the inputs are data; 0 for operators that compute.
  size_t moved_inputs(int n) {
    static constexpr const char* kMoves[] = {"Transpose",    "Reshape",      "Flatten", "Squeeze",
                                             "Unsqueeze",    "Split",        "Slice",   "Identity",
                                             "DepthToSpace", "SpaceToDepth", "Expand",  "Tile"};
    const NodeView node = rewriter_.view(n);
    const std::string& op = node.node().op;
    if (!node.node().domain.empty()) return 0;
    for (const char* name : kMoves) {
      if (op == name) return 1;
    }
    if (op == "Concat") return node.node().inputs.size();
    if (op == "MaxPool") return node.has_output(1) ? 0 : 1;
    if (op == "GlobalMaxPool") return 1;
    if (op == "Resize" || op == "Upsample") {
      const bool crops = node.attr_string("coordinate_transformation_mode", "") == "tf_crop_and_resize";
      return node.attr_string("mode", "nearest") == "nearest" && !crops ? 1 : 0;
    }
    return 0;
  }

  bool sink(int n) {
    const size_t count = moved_inputs(n);
    if (count == 0) return false;
    std::vector<ValueId> inputs = rewriter_.node(n).inputs;
    std::optional<Scale> common;
    for (size_t i = 0; i < count; ++i) {
      const std::optional<Dequantized> from = dequantized(inputs[i]);
      if (!from || (common && !(*common == from->scale))) return false;
      common = from->scale;
      inputs[i] = from->value;
    }
    const int source = rewriter_.producer(rewriter_.input(n, 0));
    const Node pattern = rewriter_.node(source);
    rewriter_.set_inputs(n, inputs);
    const size_t num_outputs = rewriter_.node(n).outputs.size();
    for (size_t i = 0; i < num_outputs; ++i) {
      const ValueId real = rewriter_.output(n, i);
      if (real == kNoValue) continue;
      const Value& value = rewriter_.value(real);
      const ValueId bytes = rewriter_.add_value(value.name + ".quantized", common->dtype, value.shape);
      rewriter_.set_output(n, i, bytes);
      Node node = pattern;
      node.name = rewriter_.node(n).name + ".dequantize";
      node.inputs[0] = bytes;
      node.outputs = {real};
      rewriter_.add_node_after(n, std::move(node));
    }
    return true;
  }

  // ---- 2. what computes ----

  Result<bool> fuse(int n) {
    const std::string op = rewriter_.node(n).op;
    if (op == "QuantizeLinear" || op == "DequantizeLinear") return false;
    if (op == "Conv" || op == "Gemm" || op == "MatMul") return fuse_product(n);
    if (rewriter_.node(n).outputs.size() != 1 || !is_f32(graph(), rewriter_.output(n))) return false;
    KILN_ASSIGN(const bool is_table, fuse_table(n));
    if (is_table) return true;
    return fuse_binary(n);
  }

  // Weights of a product as (filters, channels, window) integers, a scale a filter, and the bias.
  struct Filters {
    Tensor values;
    std::vector<float> scales;
    std::vector<float> bias;  // empty: none
  };

  // i8 with zero point 0, or u8 with zero point 128: the same numbers; along `axis`, or one scale.
  bool read_weights(const Value& value, int axis, Tensor* integers, std::vector<float>* scales) {
    if (value.quantized == nullptr || value.quantized->values == nullptr) return false;
    const QuantizedConstant& q = *value.quantized;
    if (!(q.values->shape() == value.shape) || !is_byte(q.values->dtype()) || q.scale == nullptr) return false;
    const int64_t filters = value.shape[axis];
    const int64_t count = q.scale->num_elements();
    if (count != 1 && (count != filters || q.axis != axis)) return false;
    const int64_t offset = q.values->dtype() == DType::kU8 ? 128 : 0;
    for (int64_t i = 0; i < (q.zero_point != nullptr ? q.zero_point->num_elements() : 1); ++i) {
      const int64_t zero = q.zero_point != nullptr ? element_as_i64(q.zero_point->dtype(), q.zero_point->data(), i) : 0;
      if (zero != offset) return false;
    }
    *integers = Tensor(DType::kI8, value.shape);
    for (int64_t i = 0; i < integers->num_elements(); ++i) {
      integers->as<int8_t>()[i] = static_cast<int8_t>(element_as_i64(q.values->dtype(), q.values->data(), i) - offset);
    }
    for (int64_t i = 0; i < filters; ++i) {
      const float scale = q.scale->as<float>()[count == 1 ? 0 : i];
      if (!(scale > 0) || !std::isfinite(scale)) return false;
      scales->push_back(scale);
    }
    return true;
  }

  std::optional<Filters> conv_filters(const NodeView& node) {
    if (!node.is_nhwc() || node.attr_string("input_layout", "NHWC") != "NHWC" || node.input_shape(0).rank > 4) {
      return std::nullopt;
    }
    Filters filters;
    if (!read_weights(node.input(1), 0, &filters.values, &filters.scales)) return std::nullopt;
    if (!node.has_input(2)) return filters;
    const Tensor* bias = node.constant(2);
    if (bias == nullptr || bias->dtype() != DType::kF32) return std::nullopt;
    filters.bias.assign(bias->as<float>(), bias->as<float>() + bias->num_elements());
    return filters;
  }

  // Gemm and MatMul as a convolution of one pixel: W (K, N) becomes (N, K, 1…).
  std::optional<Filters> product_filters(const NodeView& node) {
    const bool is_gemm = node.node().op == "Gemm";
    const Shape& x = node.input_shape(0);
    const Shape& w = node.input_shape(1);
    if (w.rank != 2 || x.rank < 2 || x.rank > 4 || x.num_elements() == 0) return std::nullopt;
    if (is_gemm &&
        (node.attr_int("transA", 0) != 0 || node.attr_float("alpha", 1) != 1 || node.attr_float("beta", 1) != 1)) {
      return std::nullopt;
    }
    const bool is_transposed = is_gemm && node.attr_int("transB", 0) != 0;
    Filters filters;
    Tensor values;
    if (!read_weights(node.input(1), is_transposed ? 0 : 1, &values, &filters.scales)) return std::nullopt;
    const int64_t n = w[is_transposed ? 0 : 1];
    const int64_t k = w[is_transposed ? 1 : 0];
    Shape shape{n, k};
    for (int i = 2; i < x.rank; ++i) shape.push_back(1);
    filters.values = Tensor(DType::kI8, shape);
    for (int64_t o = 0; o < n; ++o) {
      for (int64_t i = 0; i < k; ++i) {
        filters.values.as<int8_t>()[o * k + i] = values.as<int8_t>()[is_transposed ? o * k + i : i * n + o];
      }
    }
    if (!node.has_input(2)) return filters;
    const auto bias = channel_constant(graph(), node.node().inputs[2], 2, 1, n);
    if (!bias) return std::nullopt;
    for (double each : *bias) filters.bias.push_back(static_cast<float>(each));
    return filters;
  }

  // A Mul by one positive constant a channel, the only reader of `id`, all of whose readers quantise.
  struct Gain {
    int node;
    std::vector<float> values;
  };

  std::optional<Gain> gain_behind(ValueId id) {
    const int n = rewriter_.sole_consumer(id, "Mul");
    if (n < 0 || has_attr(rewriter_.node(n), "activation")) return std::nullopt;
    const Shape& shape = rewriter_.value(id).shape;
    if (shape.rank == 0 || !(rewriter_.value(rewriter_.output(n)).shape == shape)) return std::nullopt;
    const auto values = channel_constant(graph(), other_input(rewriter_.node(n), id), shape.rank, shape.rank - 1,
                                         shape[shape.rank - 1]);
    if (!values || !quantized(rewriter_.output(n)) || !can_take(rewriter_.output(n))) return std::nullopt;
    Gain gain{n, {}};
    for (double value : *values) {
      if (!(value > 0) || !std::isfinite(value)) return std::nullopt;
      gain.values.push_back(static_cast<float>(value));
    }
    return gain;
  }

  Result<bool> fuse_product(int n) {
    const NodeView view = rewriter_.view(n);
    if (view.node().outputs.size() != 1 || !view.node().domain.empty()) return false;
    const std::optional<Dequantized> x = dequantized(view.node().inputs[0]);
    if (!x) return false;
    const bool is_conv = view.node().op == "Conv";
    const std::optional<Filters> filters = is_conv ? conv_filters(view) : product_filters(view);
    if (!filters) return false;
    std::optional<Dequantized> residual;
    if (view.has_input(3)) {
      residual = dequantized(view.node().inputs[3]);
      if (!residual) return false;
    }
    const ValueId out = view.node().outputs[0];
    const std::optional<Gain> gain = residual ? std::nullopt : gain_behind(out);
    const ValueId y = gain ? rewriter_.output(gain->node) : out;
    std::optional<Scale> scale = quantized(y);
    if (scale && !can_take(y)) scale.reset();
    if (gain && !scale) return false;
    const bool is_after = view.attr_string("residual", "before_activation") == "after_activation";
    const bool is_clip = view.attr_string("activation", "") == "Clip";
    if (residual && is_after && is_clip) return false;

    Node node;
    node.op = "QuantConv";
    node.domain = "kiln";
    node.opset = 1;
    node.name = view.node().name;
    for (const auto& [key, attr] : view.node().attrs) {
      static constexpr const char* kKept[] = {"strides",    "pads",         "dilations",    "group",   "auto_pad",
                                              "activation", "activation_a", "activation_b", "residual"};
      if (std::find(std::begin(kKept), std::end(kKept), key) != std::end(kKept)) node.attrs[key] = attr;
    }
    if (!is_conv) {
      node.attrs.erase("group");
    }
    node.attrs["x_scale"] = x->scale.scale;
    node.attrs["x_zero"] = int64_t{x->scale.zero};
    if (residual) {
      node.attrs["r_scale"] = residual->scale.scale;
      node.attrs["r_zero"] = int64_t{residual->scale.zero};
    }
    node.attrs["y_dtype"] = std::string(scale ? dtype_name(scale->dtype) : "f32");
    if (scale) {
      node.attrs["y_scale"] = scale->scale;
      node.attrs["y_zero"] = int64_t{scale->zero};
    }
    const std::string base = rewriter_.value(y).name;
    node.inputs = {x->value, rewriter_.add_constant(base + ".weights", filters->values), kNoValue,
                   residual ? residual->value : kNoValue,
                   rewriter_.add_constant(base + ".weight_scales", vector_of(filters->scales))};
    if (!filters->bias.empty()) node.inputs[2] = rewriter_.add_constant(base + ".bias", vector_of(filters->bias));
    if (gain) {
      node.inputs.push_back(rewriter_.add_constant(base + ".gain", vector_of(gain->values)));
      rewriter_.set_output(n, 0, y);  // the Mul is part of it
      rewriter_.remove(gain->node);
    }
    replace(n, std::move(node), scale.has_value());
    return true;
  }

  static Tensor vector_of(const std::vector<float>& values) {
    Tensor tensor(DType::kF32, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.as<float>());
    return tensor;
  }

  // `node` in place of n; it makes what QuantizeLinear made of n's output, or that output.
  void replace(int n, Node node, bool takes_quantized) {
    const ValueId y = rewriter_.output(n);
    const ValueId made = takes_quantized ? take_quantized(y) : y;
    node.outputs = {made};
    rewriter_.remove(n);
    rewriter_.add_node_after(n, std::move(node));
  }

  // A function of one number: everything else that the node reads is a constant of one element.
  std::optional<size_t> sole_operand(int n) {
    const NodeView view = rewriter_.view(n);
    const OpDef* def = rewriter_.ops().find(view.node());
    if (def == nullptr || !def->pointwise) return std::nullopt;
    std::optional<size_t> operand;
    for (size_t i = 0; i < view.node().inputs.size(); ++i) {
      const ValueId id = view.node().inputs[i];
      if (id == kNoValue) continue;
      if (graph().is_constant(id)) {
        if (graph().value(id).shape.num_elements() != 1) return std::nullopt;
        continue;
      }
      if (operand) return std::nullopt;
      operand = i;
    }
    if (!operand || !(rewriter_.value(view.node().inputs[*operand]).shape == view.output(0).shape)) return std::nullopt;
    return operand;
  }

  Result<bool> fuse_table(int n) {
    const std::optional<size_t> operand = sole_operand(n);
    if (!operand) return false;
    const std::optional<Dequantized> x = dequantized(rewriter_.input(n, *operand));
    const std::optional<Scale> y = quantized(rewriter_.output(n));
    if (!x || !y || !can_take(rewriter_.output(n))) return false;
    // The operator as ONNX has it, on all 256 numbers.
    Graph single;
    Node copy = rewriter_.node(n);
    const Tensor all = dequantize_all(x->scale);
    std::vector<const Tensor*> inputs;
    for (size_t i = 0; i < copy.inputs.size(); ++i) {
      const ValueId id = copy.inputs[i];
      if (id == kNoValue) {
        inputs.push_back(nullptr);
        continue;
      }
      const std::string name = "in" + std::to_string(i);
      if (i == *operand) {
        copy.inputs[i] = single.add_value(name, DType::kF32, Shape{256});
        inputs.push_back(&all);
        continue;
      }
      Tensor scalar = *graph().value(id).constant;
      scalar.reshape(Shape{1});
      copy.inputs[i] = single.add_constant(name, scalar);
      inputs.push_back(single.value(copy.inputs[i]).constant.get());
    }
    copy.outputs = {single.add_value("out")};
    single.nodes = {copy};
    const Inference inferred = infer_node(rewriter_.ops(), single, single.nodes[0]);
    if (!inferred.ok()) return false;
    single.value(copy.outputs[0]).dtype = inferred.outputs[0].dtype;
    single.value(copy.outputs[0]).shape = inferred.outputs[0].shape;
    KILN_ASSIGN(const std::vector<Tensor> outputs, evaluate_node(rewriter_.ops(), single, single.nodes[0], inputs));
    if (outputs[0].dtype() != DType::kF32 || outputs[0].num_elements() != 256) return false;
    replace(n, make_table(rewriter_.node(n).name, x->value, quantize_table(*y, outputs[0].as<float>())), true);
    return true;
  }

  // The numbers of scale `y` for 256 real ones.
  static Tensor quantize_table(const Scale& y, const float* real) {
    Tensor table(y.dtype, Shape{256});
    const auto low = static_cast<float>(y.dtype == DType::kI8 ? -128 : 0);
    for (int i = 0; i < 256; ++i) {
      const float units = std::nearbyintf(real[i] / y.scale) + static_cast<float>(y.zero);
      const float raised = units > low ? units : low;  // NaN: the lowest
      store_i64(y.dtype, table.data(), i, static_cast<int64_t>(std::min(raised, low + 255)));
    }
    return table;
  }

  // The real numbers that the 256 of a scale stand for, by their bits.
  static Tensor dequantize_all(const Scale& x) {
    Tensor all(DType::kF32, Shape{256});
    for (int i = 0; i < 256; ++i) {
      const int32_t value = x.dtype == DType::kI8 ? static_cast<int8_t>(i) : i;
      all.as<float>()[i] = static_cast<float>(value - x.zero) * x.scale;
    }
    return all;
  }

  Node make_table(const std::string& name, ValueId x, Tensor table) {
    Node node;
    node.op = "QuantTable";
    node.domain = "kiln";
    node.opset = 1;
    node.name = name;
    node.inputs = {x, rewriter_.add_constant(name + ".table", std::move(table))};
    return node;
  }

  Result<bool> fuse_binary(int n) {
    const NodeView view = rewriter_.view(n);
    const std::string op = view.node().op;
    if (!view.node().domain.empty() || (op != "Add" && op != "Mul") || view.node().inputs.size() != 2) return false;
    const std::optional<Dequantized> a = dequantized(view.node().inputs[0]);
    const std::optional<Dequantized> b = dequantized(view.node().inputs[1]);
    const std::optional<Scale> y = quantized(view.node().outputs[0]);
    if (!a || !b || !y || !can_take(view.node().outputs[0])) return false;
    if (read_activation(view.node()).kind > static_cast<int32_t>(ActivationKind::kClip)) return false;
    Node node;
    node.op = "QuantBinary";
    node.domain = "kiln";
    node.opset = 1;
    node.name = view.node().name;
    node.inputs = {a->value, b->value};
    node.attrs["function"] = op;
    for (const char* name : {"activation", "activation_a", "activation_b"}) {
      if (view.has_attr(name)) node.attrs[name] = view.node().attrs.at(name);
    }
    const auto describe = [&](const std::string& name, const Scale& scale) {
      node.attrs[name + "_scale"] = scale.scale;
      node.attrs[name + "_zero"] = int64_t{scale.zero};
    };
    describe("a", a->scale);
    describe("b", b->scale);
    describe("y", *y);
    node.attrs["y_dtype"] = std::string(dtype_name(y->dtype));
    replace(n, std::move(node), true);
    return true;
  }

  // ---- 3. DequantizeLinear -> QuantizeLinear ----

  void join_scales(int n) {
    if (!rewriter_.is_op(n, "QuantizeLinear")) return;
    const std::optional<Dequantized> x = dequantized(rewriter_.input(n, 0));
    const std::optional<Scale> y = scale_of(n);
    if (!x || !y) return;
    const ValueId made = rewriter_.output(n);
    if (x->scale == *y) {
      if (rewriter_.is_output(made)) return;
      rewriter_.replace_uses(made, x->value);
      rewriter_.remove(n);
      return;
    }
    const Tensor all = dequantize_all(x->scale);
    Node node = make_table(rewriter_.node(n).name, x->value, quantize_table(*y, all.as<float>()));
    node.outputs = {made};
    rewriter_.remove(n);
    rewriter_.add_node_after(n, std::move(node));
  }

  Rewriter rewriter_;
};

}  // namespace

Result<int> fuse_quantized(Graph& graph, const OpRegistry& ops) {
  if (graph.keeps_real_quantisation) return 0;
  return Fuser(graph, ops).run();
}

}  // namespace kiln
