#include "passes/expand_qlinear.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ops/qlinear/define_forms.h"
#include "passes/carry_quantized.h"
#include "passes/match.h"

namespace kiln {
namespace {

using ops::qlinear::find_form;
using ops::qlinear::Form;
using ops::qlinear::inputs_of;
using ops::qlinear::make_float_op;
using ops::qlinear::QuantizedInput;
using ops::qlinear::table_axis;

constexpr int kOpset = 13;             // of what is made: the first with scales along an axis
constexpr int kOutputDtypeOpset = 21;  // QuantizeLinear: attribute output_dtype

// Integers with their scale and zero point (may be absent), both of one element or one an index of axis.
struct Quantized {
  ValueId data = kNoValue;
  ValueId scale = kNoValue;
  ValueId zero_point = kNoValue;
  int axis = -1;
};

class Expansion {
 public:
  Expansion(Rewriter& rewriter) : rewriter_(rewriter) {}

  // False if the node stays.
  Result<bool> expand(int n) {
    n_ = n;
    name_ = rewriter_.node(n).name;
    const Form* form = find_form(rewriter_.node(n));
    if (form == nullptr) return false;
    const ValueId out = rewriter_.output(n);
    const bool is_sum = rewriter_.value(out).dtype == DType::kI32;
    if (is_sum ? !becomes_float(out) : !has_constant_tables(*form)) return false;
    std::vector<Quantized> inputs;
    for (const QuantizedInput& input : inputs_of(rewriter_.view(n).num_inputs(), *form)) {
      const std::optional<Quantized> quantized = read(*form, input, inputs.size());
      if (!quantized) return false;
      inputs.push_back(*quantized);
    }
    const ValueId bias_integers = form->bias < 0 ? kNoValue : rewriter_.input(n, size_t(form->bias));
    Node op = make_float_op(rewriter_.node(n), *form);
    Quantized bias;
    if (bias_integers != kNoValue && rewriter_.value(bias_integers).dtype == DType::kI32) {
      KILN_ASSIGN(bias, read_bias(*form, bias_integers, inputs[0], inputs[1]));
      if (bias.data == kNoValue) return false;
    }
    for (const Quantized& input : inputs) {
      KILN_ASSIGN(const ValueId as_float, dequantize(input));
      op.inputs.push_back(as_float);
    }
    if (bias.data != kNoValue) {
      KILN_ASSIGN(const ValueId as_float, dequantize(bias));
      op.inputs.push_back(as_float);
    } else if (bias_integers != kNoValue) {
      op.inputs.push_back(bias_integers);  // f32
    }
    const Value old = rewriter_.value(out);
    if (is_sum) {
      KILN_TRY(replace_casts(std::move(op), out));
      return true;
    }
    rewriter_.remove(n);
    if (old.dtype == DType::kF32) {
      op.outputs = {out};
      rewriter_.add_node_after(n, std::move(op));
      return true;
    }
    const ValueId result = rewriter_.add_value(old.name + ".f32", DType::kF32, old.shape);
    op.outputs = {result};
    rewriter_.add_node_after(n, std::move(op));
    quantize(result, at(form->output.scale), at(form->output.zero_point), out);
    return true;
  }

 private:
  ValueId at(int i) { return i < 0 ? kNoValue : rewriter_.input(n_, static_cast<size_t>(i)); }
  int64_t count(ValueId id) { return id == kNoValue ? 1 : rewriter_.value(id).shape.num_elements(); }

  // The sum is read by Casts to f32 alone.
  bool becomes_float(ValueId sum) {
    if (rewriter_.is_output(sum) || rewriter_.consumers(sum).empty()) return false;
    const std::vector<int>& readers = rewriter_.consumers(sum);
    return std::all_of(readers.begin(), readers.end(), [&](int reader) {
      return rewriter_.is_op(reader, "Cast") && is_f32(rewriter_.graph(), rewriter_.output(reader));
    });
  }

  // Operators of ONNX have kernels for tables that are known at run time only.
  bool has_constant_tables(const Form& form) {
    if (form.domain[0] != 0) return true;
    for (const QuantizedInput& tables : {form.inputs[0], form.inputs[1], form.output}) {
      for (const ValueId id : {at(tables.scale), at(tables.zero_point)}) {
        if (id != kNoValue && !rewriter_.is_constant(id)) return false;
      }
    }
    return count(at(form.output.scale)) == 1 && count(at(form.output.zero_point)) == 1;
  }

  // A scale or zero point of `n` elements, one of them repeated; kNoValue if that is not known now.
  ValueId repeat(ValueId id, int64_t n) {
    const Value table = rewriter_.value(id);
    if (table.shape == Shape{n}) return id;
    if (table.constant == nullptr) return kNoValue;
    Tensor tensor(table.dtype, Shape{n});
    for (int64_t i = 0; i < n; ++i) {
      const int64_t from = count(id) == 1 ? 0 : i;
      store_f64(table.dtype, tensor.data(), i, element_as_f64(table.dtype, table.constant->data(), from));
    }
    return rewriter_.add_constant(table.name, std::move(tensor));
  }

  // Scale and zero point as DequantizeLinear wants them: both of one element or both of as many as the axis.
  std::optional<Quantized> align(Quantized quantized) {
    const int64_t n = std::max(count(quantized.scale), count(quantized.zero_point));
    if (n == 1) {
      quantized.axis = -1;
      return quantized;
    }
    if (quantized.axis < 0 || n != rewriter_.value(quantized.data).shape[quantized.axis]) return std::nullopt;
    quantized.scale = repeat(quantized.scale, n);
    if (quantized.scale == kNoValue) return std::nullopt;
    if (quantized.zero_point == kNoValue) return quantized;
    quantized.zero_point = repeat(quantized.zero_point, n);
    return quantized.zero_point == kNoValue ? std::nullopt : std::optional(quantized);
  }

  std::optional<Quantized> read(const Form& form, const QuantizedInput& input, size_t i) {
    Quantized quantized = {at(input.data), at(input.scale), at(input.zero_point), -1};
    if (rewriter_.value(quantized.data).dtype == DType::kF32) return quantize_by_range(quantized.data);
    if (i < 2) quantized.axis = table_axis(rewriter_.view(n_), form, i);
    if (quantized.scale == kNoValue) quantized.scale = rewriter_.add_constant(name_ + ".one", make_f32({}, {1}));
    return align(quantized);
  }

  // DynamicQuantizeMatMul's first factor.
  Quantized quantize_by_range(ValueId x) {
    const Value value = rewriter_.value(x);
    Quantized quantized;
    quantized.data = rewriter_.add_value(value.name + ".quantized", DType::kU8, value.shape);
    quantized.scale = rewriter_.add_value(value.name + ".scale", DType::kF32, Shape{});
    quantized.zero_point = rewriter_.add_value(value.name + ".zero_point", DType::kU8, Shape{});
    Node node = make_node("DynamicQuantizeLinear", kOpset, name_ + ".range", {x}, quantized.data);
    node.outputs = {quantized.data, quantized.scale, quantized.zero_point};
    rewriter_.add_node_before(n_, std::move(node));
    return quantized;
  }

  // An i32 bias counts in x_scale * w_scale [* alpha]. No data if it cannot be told now how they go together.
  Result<Quantized> read_bias(const Form& form, ValueId data, const Quantized& x, const Quantized& w) {
    Quantized bias;
    const int rank = rewriter_.value(data).shape.rank;
    const Value x_scale = rewriter_.value(x.scale);
    const Value w_scale = rewriter_.value(w.scale);
    if (w.axis >= 0 && (rank < 1 || rewriter_.value(data).shape[rank - 1] != count(w.scale))) return bias;
    bias.axis = w.axis >= 0 ? rank - 1 : -1;
    bias.data = data;
    const bool is_gemm = std::string(form.float_op) == "Gemm";
    const float alpha = is_gemm ? rewriter_.view(n_).attr_float("alpha", 1.0f) : 1.0f;
    if (x_scale.constant != nullptr && w_scale.constant != nullptr) {
      Tensor product(DType::kF32, w_scale.shape);
      for (int64_t i = 0; i < product.num_elements(); ++i) {
        product.as<float>()[i] = x_scale.constant->as<float>()[0] * w_scale.constant->as<float>()[i] * alpha;
      }
      bias.scale = rewriter_.add_constant(name_ + ".bias_scale", std::move(product));
      return bias;
    }
    bias.scale = multiply(x.scale, w.scale);
    if (alpha != 1) {
      bias.scale = multiply(bias.scale, rewriter_.add_constant(name_ + ".alpha", make_f32({}, {double{alpha}})));
    }
    return bias;
  }

  ValueId multiply(ValueId a, ValueId b) {
    Shape shape;
    broadcast_shapes(rewriter_.value(a).shape, rewriter_.value(b).shape, &shape);
    const ValueId product = rewriter_.add_value(name_ + ".bias_scale", DType::kF32, shape);
    rewriter_.add_node_before(n_, make_node("Mul", kOpset, name_ + ".bias_scale", {a, b}, product));
    return product;
  }

  // The float value: a constant where everything is one; made once for all that read the integers.
  Result<ValueId> dequantize(const Quantized& quantized) {
    const auto key = std::make_tuple(quantized.data, quantized.scale, quantized.zero_point, quantized.axis);
    const auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    const Value data = rewriter_.value(quantized.data);
    const ValueId out = rewriter_.add_value(data.name + ".f32", DType::kF32, data.shape);
    Node node =
        make_node("DequantizeLinear", kOpset, data.name + ".dequantize", {quantized.data, quantized.scale}, out);
    if (quantized.zero_point != kNoValue) node.inputs.push_back(quantized.zero_point);
    if (quantized.axis >= 0) node.attrs["axis"] = int64_t{quantized.axis};
    made_[key] = out;
    std::vector<const Tensor*> constants;
    for (ValueId id : node.inputs) constants.push_back(rewriter_.value(id).constant.get());
    if (std::find(constants.begin(), constants.end(), nullptr) != constants.end()) {
      rewriter_.add_node_before(n_, std::move(node));
      return out;
    }
    KILN_ASSIGN(std::vector<Tensor> tensors, evaluate_node(rewriter_.ops(), rewriter_.graph(), node, constants));
    rewriter_.value(out).constant = std::make_shared<const Tensor>(std::move(tensors[0]));
    carry_quantized(rewriter_.graph(), node);
    return out;
  }

  void quantize(ValueId x, ValueId scale, ValueId zero_point, ValueId out) {
    Node node = make_node("QuantizeLinear", kOpset, name_ + ".quantize", {x, scale}, out);
    if (zero_point != kNoValue) {
      node.inputs.push_back(zero_point);
    } else if (rewriter_.value(out).dtype == DType::kI8) {
      node.opset = kOutputDtypeOpset;
      node.attrs["output_dtype"] = int64_t{3};  // INT8
    }
    rewriter_.add_node_after(n_, std::move(node));
  }

  Status replace_casts(Node op, ValueId sum) {
    const Value old = rewriter_.value(sum);
    const ValueId result = rewriter_.add_value(old.name + ".f32", DType::kF32, old.shape);
    const std::vector<int> casts = rewriter_.consumers(sum);
    op.outputs = {result};
    rewriter_.add_node_after(n_, std::move(op));
    rewriter_.remove(n_);
    for (int cast : casts) rewriter_.set_input(cast, 0, result);
    for (int cast : casts) rewriter_.bypass(cast);
    return {};
  }

  Rewriter& rewriter_;
  int n_ = -1;
  std::string name_;
  std::map<std::tuple<ValueId, ValueId, ValueId, int>, ValueId> made_;
};

}  // namespace

Result<int> expand_qlinear(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  Expansion expansion(rewriter);
  int changes = 0;
  const int num_nodes = rewriter.num_nodes();
  for (int n = 0; n < num_nodes; ++n) {
    if (rewriter.is_dead(n)) continue;
    KILN_ASSIGN(const bool expanded, expansion.expand(n));
    if (expanded) ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
