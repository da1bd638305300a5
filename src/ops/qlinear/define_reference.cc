#include "ops/qlinear/define_reference.h"

#include <algorithm>

#include "ops/index.h"
#include "ops/matmul/matmul.h"
#include "ops/quantize/quantize.h"

namespace kiln::ops::qlinear {
namespace {

// Before the float operator's parameters.
struct Axes {
  int32_t of_input[2] = {-1, -1};  // that tables of more than one element belong to
};

TensorRef input_at(const KernelArgs& args, int i) { return i >= 0 && i < args.num_in ? args.in[i] : TensorRef{}; }

Tensor like(const TensorRef& ref) {
  Shape shape;
  for (int i = 0; i < ref.rank; ++i) shape.push_back(ref.dims[i]);
  return Tensor(DType::kF32, shape);
}

int64_t element(const TensorRef& table, int64_t i) { return table.num_elements() == 1 ? 0 : i; }

// f32 as it is; what the operator quantises itself, there and back.
Tensor read_float(const TensorRef& data, bool is_quantized_by_range) {
  Tensor result = like(data);
  float min = 0;
  float max = 0;
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.as<float>()[i] = data.as<float>()[i];
    min = std::min(min, data.as<float>()[i]);
    max = std::max(max, data.as<float>()[i]);
  }
  if (!is_quantized_by_range) return result;
  const quantize::DynamicScale dynamic = quantize::dynamic_scale(min, max);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    float& x = result.as<float>()[i];
    const int64_t q = quantize::round_to_range(x / dynamic.scale, dynamic.zero_point, {0, 255});
    x = static_cast<float>(q - dynamic.zero_point) * dynamic.scale;
  }
  return result;
}

Tensor dequantize(const KernelArgs& args, const QuantizedInput& input, int axis) {
  const TensorRef data = input_at(args, input.data);
  const TensorRef scale = input_at(args, input.scale);
  const TensorRef zero_point = input_at(args, input.zero_point);
  if (!scale.present()) return read_float(data, true);
  Tensor result = like(data);
  const int64_t inner = axis < 0 ? 1 : dims_product(data, axis + 1, data.rank);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    const int64_t k = axis < 0 ? 0 : i / inner % data.dims[axis];
    const int64_t zero = zero_point.present() ? element_as_i64(data.dtype, zero_point.data, element(zero_point, k)) : 0;
    result.as<float>()[i] =
        static_cast<float>(element_as_i64(data.dtype, data.data, i) - zero) * scale.as<float>()[element(scale, k)];
  }
  return result;
}

// Gemm's alpha multiplies the product before the bias comes to it.
Tensor read_bias(const KernelArgs& args, const Form& form) {
  const TensorRef bias = input_at(args, form.bias);
  if (bias.dtype == DType::kF32) return read_float(bias, false);
  const void* params = &args.params_as<Axes>() + 1;
  const float alpha = static_cast<const matmul::MatmulParams*>(params)->alpha;
  const float x_scale = *input_at(args, form.inputs[0].scale).as<float>() * alpha;
  const TensorRef w_scale = input_at(args, form.inputs[1].scale);
  Tensor result = like(bias);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    const int64_t k = w_scale.num_elements() == 1 ? 0 : i % w_scale.num_elements();
    result.as<float>()[i] = static_cast<float>(bias.as<int32_t>()[i]) * (x_scale * w_scale.as<float>()[k]);
  }
  return result;
}

}  // namespace

ParamBytes params_by_float(const NodeView& node) {
  const Form& form = *find_form(node.node());
  const FloatNode as_float = float_node(node, form);
  Axes axes;
  for (size_t i = 0; i < 2; ++i) {
    if (form.inputs[i].data >= 0) axes.of_input[i] = table_axis(node, form, i);
  }
  ParamBytes bytes = pack_params(axes);
  const OpDef* def = builtin_ops().find(as_float.node());
  if (def->make_params == nullptr) return bytes;
  const ParamBytes rest = def->make_params(NodeView(as_float.graph, as_float.node()));
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

void run_by_float(const KernelArgs& args, const Form& form) {
  const auto& axes = args.params_as<Axes>();
  std::vector<Tensor> tensors;
  const std::vector<QuantizedInput> inputs = inputs_of(args.num_in, form);
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(dequantize(args, inputs[i], i < 2 ? axes.of_input[i] : -1));
  }
  if (input_at(args, form.bias).present()) tensors.push_back(read_bias(args, form));
  std::vector<TensorRef> refs;
  for (const Tensor& tensor : tensors) refs.push_back(make_ref(tensor));

  const TensorRef& y = args.out[0];
  Tensor result = like(y);
  const TensorRef out = make_ref(result);
  KernelArgs as_float = args;
  as_float.params = &axes + 1;
  as_float.params_bytes = args.params_bytes - sizeof(Axes);
  as_float.in = refs.data();
  as_float.num_in = static_cast<int>(refs.size());
  as_float.out = &out;
  builtin_ops().find(form.float_op, "")->reference(as_float);

  const TensorRef scale = input_at(args, form.output.scale);
  const TensorRef zero_point = input_at(args, form.output.zero_point);
  const int64_t zero = zero_point.present() ? element_as_i64(y.dtype, zero_point.data, 0) : 0;
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    const float value = result.as<float>()[i];
    if (y.dtype == DType::kF32) {
      y.as<float>()[i] = value;
    } else {
      const quantize::IntegerRange range = quantize::integer_range(y.dtype);
      store_i64(y.dtype, y.data, i, quantize::round_to_range(value / *scale.as<float>(), zero, range));
    }
  }
}

}  // namespace kiln::ops::qlinear
