#include "passes/fold_batch_norm.h"

#include <algorithm>

#include "passes/affine.h"

namespace kiln {
namespace {

// A convolution or matrix product whose weights and bias can be scaled.
struct Producer {
  int n = -1;
  int64_t channels = 0;
};

// Weights as rows of `length` elements that belong to one output channel each.
struct WeightRows {
  int64_t rows = 0;
  int64_t length = 1;
  int64_t in_group = 1;  // rows of one group, ConvTranspose: channel = row / in_group * channels + row % channels
  int64_t channels = 1;

  int64_t channel(int64_t row) const { return row / in_group * channels + row % channels; }
};

WeightRows weight_rows(const NodeView& node) {
  const Shape& w = node.constant(1)->shape();
  WeightRows rows;
  if (node.node().op == "ConvTranspose") {  // (c, o / group, …)
    rows.rows = w[0] * w[1];
    rows.channels = w[1];
    rows.in_group = rows.rows / node.attr_int("group", 1);
  } else {
    const bool by_row = node.node().op == "Conv" || node.attr_int("transB", 0) != 0;
    rows.rows = by_row ? w[0] : w[0] * w[1];
    rows.channels = by_row ? w[0] : w[1];
    rows.in_group = rows.rows;
  }
  rows.length = node.constant(1)->num_elements() / rows.rows;
  return rows;
}

// The axis of the output that belongs to the weights.
int channel_axis(Rewriter& rewriter, ValueId x) {
  return rewriter.is_op(rewriter.producer(x), "MatMul") ? rewriter.value(x).shape.rank - 1 : 1;
}

// Gemm's C may be (M, N) or (M, 1): only what is the same for all rows can be a bias.
int bias_rank(const NodeView& node) { return node.node().op == "Gemm" ? 2 : 1; }

std::optional<std::vector<double>> read_bias(const NodeView& node, int64_t channels) {
  if (!node.has_input(2)) return std::vector<double>(static_cast<size_t>(channels), 0.0);
  const ValueId bias = node.node().inputs[2];
  if (!is_f32(node.graph(), bias)) return std::nullopt;
  const int rank = bias_rank(node);
  return channel_constant(node.graph(), bias, rank, rank - 1, channels);
}

std::optional<Producer> find_producer(Rewriter& rewriter, ValueId x) {
  static constexpr const char* kOps[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  const int n = rewriter.producer(x);
  if (n < 0 || !rewriter.has_one_use(x)) return std::nullopt;
  const auto is = [&](const char* op) { return rewriter.is_op(n, op); };
  if (std::none_of(std::begin(kOps), std::end(kOps), is)) return std::nullopt;
  const NodeView node = rewriter.view(n);
  if (node.has_attr("activation") || node.has_input(3) || node.is_nhwc()) return std::nullopt;
  const Tensor* weights = node.constant(1);
  if (weights == nullptr || weights->dtype() != DType::kF32) return std::nullopt;
  if (is("MatMul") && (weights->shape().rank != 2 || node.input_shape(0).rank < 2)) return std::nullopt;
  Producer producer;
  producer.n = n;
  producer.channels = rewriter.value(x).shape[channel_axis(rewriter, x)];
  if (producer.channels < 1 || !read_bias(node, producer.channels)) return std::nullopt;
  return producer;
}

void fold(Rewriter& rewriter, const Producer& producer, const Affine& affine) {
  const NodeView node = rewriter.view(producer.n);
  const Tensor& weights = *node.constant(1);
  bool is_scaled = false;
  for (double scale : affine.scale) is_scaled = is_scaled || scale != 1;
  Tensor scaled;
  if (is_scaled) {
    scaled = Tensor(DType::kF32, weights.shape());
    const WeightRows rows = weight_rows(node);
    const float* from = weights.as<float>();
    float* to = scaled.as<float>();
    for (int64_t row = 0; row < rows.rows; ++row) {
      const double scale = affine.scale[static_cast<size_t>(rows.channel(row))];
      for (int64_t i = row * rows.length; i < (row + 1) * rows.length; ++i) to[i] = static_cast<float>(from[i] * scale);
    }
  }
  std::vector<double> bias = *read_bias(node, producer.channels);
  const std::string bias_name = node.has_input(2) ? node.input(2).name : node.input(1).name + ".bias";
  const bool is_gemm = node.node().op == "Gemm";
  const double beta = is_gemm ? node.attr_float("beta", 1.0f) : 1.0;
  for (size_t c = 0; c < bias.size(); ++c) bias[c] = bias[c] * beta * affine.scale[c] + affine.shift[c];

  const std::string weights_name = node.input(1).name;
  if (is_scaled) rewriter.set_input(producer.n, 1, rewriter.add_constant(weights_name, std::move(scaled)));
  rewriter.set_input(producer.n, 2, rewriter.add_constant(bias_name, make_f32(Shape{producer.channels}, bias)));
  if (is_gemm) rewriter.node(producer.n).attrs.erase("beta");
}

}  // namespace

Result<int> fold_batch_norm(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (rewriter.is_dead(n) || rewriter.node(n).outputs.empty() || rewriter.output(n) == kNoValue) continue;
    const Shape& shape = rewriter.value(rewriter.output(n)).shape;
    if (shape.rank < 2) continue;
    std::optional<Affine> affine = batch_norm_as_affine(rewriter, n);
    if (affine && channel_axis(rewriter, affine->x) != 1) continue;
    for (size_t i = 0; i < rewriter.node(n).inputs.size() && i < 2 && !affine; ++i) {
      const ValueId x = rewriter.input(n, i);
      if (x == kNoValue || rewriter.is_constant(x) || rewriter.value(x).shape.rank != shape.rank) continue;
      const int axis = channel_axis(rewriter, x);
      affine = arithmetic_as_affine(rewriter, n, axis, shape[axis]);
    }
    if (!affine) continue;
    const std::optional<Producer> producer = find_producer(rewriter, affine->x);
    if (!producer || producer->channels != static_cast<int64_t>(affine->scale.size())) continue;
    fold(rewriter, *producer, *affine);
    const ValueId out = rewriter.output(n);
    rewriter.remove(n);
    rewriter.set_output(producer->n, 0, out);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
