#include "ops/definition.h"
#include "ops/norm/norm.h"

namespace kiln::ops::norm {

void batch_norm_any(const KernelArgs& args);
void instance_norm_any(const KernelArgs& args);
void layer_norm_any(const KernelArgs& args);
void lrn_any(const KernelArgs& args);
void mean_variance_norm_any(const KernelArgs& args);

namespace {

bool takes_floats(Inference& out, const NodeView& node) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!out.check_dtype(i, {DType::kF32, DType::kF16, DType::kBF16, DType::kF64})) return false;
  }
  return true;
}

bool all_f32(const NodeView& node) {
  bool ok = true;
  for (int i = 0; i < node.num_inputs(); ++i) ok = ok && (!node.has_input(i) || node.input_dtype(i) == DType::kF32);
  return ok;
}

// (outer, channels, inner) of an image; channels 1 if it has only a batch axis.
ImageSplit split_image(const NodeView& node) {
  ImageSplit image;
  const Shape& x = node.input_shape(0);
  const int axis = node.is_nhwc() ? x.rank - 1 : 1;
  image.is_nhwc = node.is_nhwc();
  image.outer = static_cast<int32_t>(x[0]);
  image.channels = static_cast<int32_t>(axis < x.rank ? x[axis] : 1);
  image.inner = static_cast<int32_t>(node.is_nhwc() ? x.product(1, axis) : x.product(axis + 1, x.rank));
  return image;
}

int64_t num_channels(const NodeView& node) {
  const Shape& x = node.input_shape(0);
  if (x.rank < 2) return 1;
  return x[node.is_nhwc() ? x.rank - 1 : 1];
}

// Inputs [first, last] hold one value a channel.
bool check_channel_inputs(const NodeView& node, Inference& out, int first, int last) {
  for (int i = first; i <= last; ++i) {
    const Shape& shape = node.input_shape(i);
    if (shape.rank == 1 && shape[0] == num_channels(node)) continue;
    out.invalid(strf("shape of input '%s'", node.input(i).name.c_str()).c_str(), print_shape(shape),
                strf("[%lld], one value a channel", static_cast<long long>(num_channels(node))));
    return false;
  }
  return true;
}

bool is_training(const NodeView& node) { return node.opset() >= 14 && node.attr_int("training_mode", 0) != 0; }

// Outputs behind the first that something reads.
bool has_used_statistics(const NodeView& node) {
  for (int i = 1; i < node.num_outputs(); ++i) {
    if (!node.has_output(i)) continue;
    const ValueId id = node.node().outputs[static_cast<size_t>(i)];
    for (ValueId output : node.graph().outputs) {
      if (output == id) return true;
    }
    for (const Node& reader : node.graph().nodes) {
      for (ValueId input : reader.inputs) {
        if (input == id) return true;
      }
    }
  }
  return false;
}

void infer_batch_norm(const NodeView& node, Inference& out) {
  if (!out.check_inputs(5, 5) || !takes_floats(out, node)) return;
  if (node.input_shape(0).rank < 1) {
    out.invalid("rank of input 0", "0", "1 or more");
    return;
  }
  if (node.attr_int("spatial", 1) == 0 && node.input_shape(0).rank > 2) {  // of (N, C) both are the same
    out.unsupported("spatial", "0", "1 (statistics a channel)");
    return;
  }
  if (!check_channel_inputs(node, out, 1, 4)) return;
  if (!is_training(node) && node.num_outputs() > 1 && has_used_statistics(node)) {
    out.unsupported("outputs", "statistics are read", "output 0 alone, or training_mode = 1 from opset 14 on");
    return;
  }
  out.set_output(0, node.input_dtype(0), node.input_shape(0));
  for (int i = 1; i < node.num_outputs(); ++i) {
    if (node.has_output(i)) out.set_output(i, node.input_dtype(3), node.input_shape(3));
  }
}

ParamBytes batch_norm_params(const NodeView& node) {
  BatchNormParams params;
  params.image = split_image(node);
  params.training = is_training(node);
  params.epsilon = node.attr_float("epsilon", 1e-5f);
  params.momentum = node.attr_float("momentum", 0.9f);
  return pack_params(params);
}

Status lower_batch_norm(const NodeView& node, Lowering& out) {
  const bool fast = all_f32(node) && !is_training(node);
  out.kernel = fast ? "batch_norm_f32" : "batch_norm_any";
  out.params = batch_norm_params(node);
  for (ValueId id : node.node().inputs) out.inputs.push_back({id, nullptr});
  out.outputs = node.node().outputs;
  if (!is_training(node)) out.outputs.resize(1);
  // Scale and shift a channel, and a few floats of padding.
  if (fast) out.scratch_bytes = (static_cast<size_t>(num_channels(node)) * 2 + 8) * sizeof(float);
  return {};
}

void infer_instance_norm(const NodeView& node, Inference& out) {
  if (!out.check_inputs(3, 3) || !takes_floats(out, node)) return;
  if (node.input_shape(0).rank < 2) {
    out.invalid("rank of input 0", std::to_string(node.input_shape(0).rank), "2 or more");
    return;
  }
  if (!check_channel_inputs(node, out, 1, 2)) return;
  out.set_output(0, node.input_dtype(0), node.input_shape(0));
}

ParamBytes instance_norm_params(const NodeView& node) {
  InstanceNormParams params;
  params.image = split_image(node);
  params.epsilon = node.attr_float("epsilon", 1e-5f);
  return pack_params(params);
}

Status lower_by_dtype(const NodeView& node, Lowering& out, const char* f32, const char* any, ParamBytes params) {
  out.kernel = all_f32(node) ? f32 : any;
  out.params = std::move(params);
  for (ValueId id : node.node().inputs) out.inputs.push_back({id, nullptr});
  out.outputs = node.node().outputs;
  return {};
}

Status lower_instance_norm(const NodeView& node, Lowering& out) {
  return lower_by_dtype(node, out, "instance_norm_f32", "instance_norm_any", instance_norm_params(node));
}

void infer_layer_norm(const NodeView& node, Inference& out) {
  if (!out.check_inputs(2, 3) || !takes_floats(out, node)) return;
  const Shape& x = node.input_shape(0);
  int axis = 0;
  if (!normalize_axis(node.attr_int("axis", -1), x.rank, &axis)) {
    out.invalid("axis", std::to_string(node.attr_int("axis", -1)), strf("within [-%d, %d)", x.rank, x.rank));
    return;
  }
  const int64_t n = x.product(axis, x.rank);
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (!node.has_input(i) || node.input_shape(i).num_elements() == n) continue;
    out.unsupported(i == 1 ? "shape of Scale" : "shape of B", print_shape(node.input_shape(i)),
                    strf("the shape of the normalised axes (%lld elements)", static_cast<long long>(n)));
    return;
  }
  out.set_output(0, node.input_dtype(0), x);
  Shape statistics = x;
  for (int i = axis; i < x.rank; ++i) statistics[i] = 1;
  const DType stash = node.attr_int("stash_type", 1) == 1 ? DType::kF32 : node.input_dtype(0);
  for (int i = 1; i < 3; ++i) {
    if (node.has_output(i)) out.set_output(i, stash, statistics);
  }
}

ParamBytes layer_norm_params(const NodeView& node) {
  const Shape& x = node.input_shape(0);
  int axis = 0;
  normalize_axis(node.attr_int("axis", -1), x.rank, &axis);
  LayerNormParams params;
  params.rows = static_cast<int32_t>(x.product(0, axis));
  params.n = static_cast<int32_t>(x.product(axis, x.rank));
  params.epsilon = node.attr_float("epsilon", 1e-5f);
  return pack_params(params);
}

Status lower_layer_norm(const NodeView& node, Lowering& out) {
  return lower_by_dtype(node, out, "layer_norm_f32", "layer_norm_any", layer_norm_params(node));
}

void infer_lrn(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !takes_floats(out, node)) return;
  if (node.input_shape(0).rank < 2) {
    out.invalid("rank of input 0", std::to_string(node.input_shape(0).rank), "2 or more");
  }
  const int64_t size = node.attr_int("size", 0);
  if (size < 1 || size > INT32_MAX) out.invalid("size", std::to_string(size), "1 or more");
  if (out.ok()) out.set_output(0, node.input_dtype(0), node.input_shape(0));
}

ParamBytes lrn_params(const NodeView& node) {
  LrnParams params;
  params.image = split_image(node);
  params.size = static_cast<int32_t>(node.attr_int("size", 1));
  params.alpha = node.attr_float("alpha", 1e-4f);
  params.beta = node.attr_float("beta", 0.75f);
  params.bias = node.attr_float("bias", 1.0f);
  return pack_params(params);
}

Status lower_lrn(const NodeView& node, Lowering& out) {
  return lower_by_dtype(node, out, "lrn_f32", "lrn_any", lrn_params(node));
}

bool make_axes_mask(const NodeView& node, int32_t* mask, int64_t* bad) {
  const std::vector<int64_t> axes = node.has_attr("axes") ? node.attr_ints("axes") : std::vector<int64_t>{0, 2, 3};
  *mask = 0;
  for (int64_t axis : axes) {
    int normal = 0;
    *bad = axis;
    if (!normalize_axis(axis, node.input_shape(0).rank, &normal)) return false;
    *mask |= 1 << normal;
  }
  return true;
}

void infer_mean_variance_norm(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !takes_floats(out, node)) return;
  int32_t mask = 0;
  int64_t bad = 0;
  if (!make_axes_mask(node, &mask, &bad)) {
    const int rank = node.input_shape(0).rank;
    out.invalid("axes", std::to_string(bad), strf("within [-%d, %d)", rank, rank));
    return;
  }
  out.set_output(0, node.input_dtype(0), node.input_shape(0));
}

ParamBytes mean_variance_norm_params(const NodeView& node) {
  MeanVarianceNormParams params;
  int64_t bad = 0;
  make_axes_mask(node, &params.axes_mask, &bad);
  return pack_params(params);
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      {"BatchNormalization", "", 7,
       "y = scale * (x - mean) / sqrt(var + epsilon) + bias a channel; unread statistics outputs; "
       "training_mode; floats",
       infer_batch_norm, batch_norm_params, batch_norm_any, nullptr, lower_batch_norm},
      {"InstanceNormalization", "", 1, "the same with mean and variance of each sample and channel; floats",
       infer_instance_norm, instance_norm_params, instance_norm_any, nullptr, lower_instance_norm},
      {"LayerNormalization", "", 17,
       "y = scale * (x - mean) / sqrt(var + epsilon) + bias over the axes from axis on, with Mean and "
       "InvStdDev; floats",
       infer_layer_norm, layer_norm_params, layer_norm_any, nullptr, lower_layer_norm},
      {"LRN", "", 1, "y = x / (bias + alpha / size * sum of x^2 over size channels)^beta; floats", infer_lrn,
       lrn_params, lrn_any, nullptr, lower_lrn},
      {"MeanVarianceNormalization", "", 9, "y = (x - mean) / (standard deviation + 1e-9) over axes; floats",
       infer_mean_variance_norm, mean_variance_norm_params, mean_variance_norm_any, "mean_variance_norm_any", nullptr},
  };
  return kDefs;
}

}  // namespace kiln::ops::norm
