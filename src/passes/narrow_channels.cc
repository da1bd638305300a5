#include "passes/narrow_channels.h"

#include <cstring>

#include "passes/infer.h"
#include "passes/match.h"

namespace kiln {
namespace {

using Indices = std::vector<int64_t>;

// The slices `kept` of `axis`.
Tensor gather_axis(const Tensor& tensor, int axis, const Indices& kept) {
  Shape shape = tensor.shape();
  const auto outer = static_cast<size_t>(shape.product(0, axis));
  const size_t row = static_cast<size_t>(shape.product(axis + 1, shape.rank)) * dtype_bytes(tensor.dtype());
  const auto length = static_cast<size_t>(shape[axis]);
  shape[axis] = static_cast<int64_t>(kept.size());
  Tensor out(tensor.dtype(), shape);
  const auto* from = static_cast<const uint8_t*>(tensor.data());
  auto* to = static_cast<uint8_t*>(out.data());
  for (size_t o = 0; o < outer; ++o) {
    for (int64_t index : kept) {
      std::memcpy(to, from + (o * length + static_cast<size_t>(index)) * row, row);
      to += row;
    }
  }
  return out;
}

class Narrower {
 public:
  Narrower(Graph& graph, const OpRegistry& ops, const ChannelNumbers& channels, const std::vector<bool>& is_removed,
           const std::vector<double>& numbers)
      : rewriter_(graph, ops), channels_(channels), is_removed_(is_removed), numbers_(numbers) {}

  Status finish() { return rewriter_.finish(); }

  void narrow(int n, const ChannelFlow& flow) {
    bool changes = false;
    for (const std::vector<ValueId>* ids : {&rewriter_.node(n).inputs, &rewriter_.node(n).outputs}) {
      for (ValueId id : *ids) changes = changes || static_cast<int64_t>(kept(id).size()) != channels_.count(id);
    }
    if (!changes) return;
    switch (flow.kind) {
      case FlowKind::kProduct:
        return narrow_product(n, *flow.product);
      case FlowKind::kPointwise:
        return narrow_constants(n);
      case FlowKind::kReshape:
        if (rewriter_.is_op(n, "Reshape")) set_size(n, 1, 1, num_kept(rewriter_.output(n)));
        return;
      case FlowKind::kResize:
        if (rewriter_.input(n, 3) != kNoValue) set_size(n, 3, 1, num_kept(rewriter_.output(n)));
        return;
      case FlowKind::kPad:
        return narrow_pad(n);
      case FlowKind::kSlice:
        return narrow_slice(n);
      case FlowKind::kSplit:
        return narrow_split(n);
      case FlowKind::kOpaque:
      case FlowKind::kPool:
      case FlowKind::kConcat:
        return;
    }
  }

 private:
  Indices kept(ValueId id) const {
    Indices list;
    for (int64_t c = 0; c < channels_.count(id); ++c) {
      if (!is_removed_[static_cast<size_t>(channels_.number(id, c))]) list.push_back(c);
    }
    return list;
  }
  int64_t num_kept(ValueId id) const { return static_cast<int64_t>(kept(id).size()); }

  const Tensor& constant(int n, size_t i) { return *rewriter_.value(rewriter_.input(n, i)).constant; }

  void set_constant(int n, size_t i, Tensor tensor) {
    const ValueId old = rewriter_.input(n, i);
    const std::string name = old != kNoValue ? rewriter_.value(old).name : rewriter_.node(n).name + ".constant";
    rewriter_.set_input(n, i, rewriter_.add_constant(name, std::move(tensor)));
  }

  void gather(int n, size_t i, int axis, const Indices& list) {
    const Tensor& from = constant(n, i);
    if (from.shape()[axis] != static_cast<int64_t>(list.size())) set_constant(n, i, gather_axis(from, axis, list));
  }

  // Integer constants of input i, changed by `change`.
  template <typename Change>
  void edit_ints(int n, size_t i, Change change) {
    Tensor copy = constant(n, i);
    Indices values;
    for (int64_t k = 0; k < copy.num_elements(); ++k) {
      values.push_back(element_as_i64(copy.dtype(), copy.data(), k));
    }
    change(values);
    for (size_t k = 0; k < values.size(); ++k) {
      store_i64(copy.dtype(), copy.data(), static_cast<int64_t>(k), values[k]);
    }
    set_constant(n, i, std::move(copy));
  }

  // The full output shape as the input that gives it.
  void set_size(int n, size_t i, int axis, int64_t size) {
    const Shape shape = rewriter_.value(rewriter_.output(n)).shape;
    edit_ints(n, i, [&](Indices& values) {
      for (size_t k = 0; k < values.size(); ++k) values[k] = shape[static_cast<int>(k)];
      values[static_cast<size_t>(axis)] = size;
    });
  }

  // What removed input channels add to an output channel.
  double removed_sum(const ChannelProduct& product, ValueId x, int64_t o) const {
    double total = 0;
    for (int64_t c = product.first_in(o); c < product.first_in(o) + product.in_group(); ++c) {
      const auto number = static_cast<size_t>(channels_.number(x, c));
      if (is_removed_[number] && numbers_[number] != 0) total += numbers_[number] * product.sum(o, c);
    }
    return total * product.alpha;
  }

  void narrow_bias(int n, const ChannelProduct& product, const Indices& outs) {
    const ValueId x = rewriter_.input(n, 0);
    std::vector<double> sums;
    bool any = false;
    for (int64_t o : outs) {
      sums.push_back(product.group == 1 ? removed_sum(product, x, o) : 0);
      any = any || sums.back() != 0;
    }
    const bool has_bias = rewriter_.input(n, 2) != kNoValue;
    if (!any) {
      const int axis = has_bias ? constant(n, 2).shape().rank - 1 : -1;
      if (axis >= 0 && constant(n, 2).shape()[axis] == product.out) gather(n, 2, axis, outs);
      return;
    }
    for (size_t k = 0; k < outs.size(); ++k) sums[k] += (*product.bias)[static_cast<size_t>(outs[k])];
    const std::string name = rewriter_.value(rewriter_.input(n, has_bias ? 2 : 1)).name + (has_bias ? "" : ".bias");
    const Shape shape{static_cast<int64_t>(outs.size())};
    rewriter_.set_input(n, 2, rewriter_.add_constant(name, make_f32(shape, sums)));
    if (rewriter_.is_op(n, "Gemm")) rewriter_.node(n).attrs.erase("beta");
  }

  void narrow_product(int n, const ChannelProduct& product) {
    const Indices ins = kept(rewriter_.input(n, 0)), outs = kept(rewriter_.output(n));
    narrow_bias(n, product, outs);
    const bool is_conv = rewriter_.is_op(n, "Conv");
    const bool is_gemm = rewriter_.is_op(n, "Gemm") || rewriter_.is_op(n, "MatMul");
    const bool by_row = is_conv || (is_gemm && rewriter_.view(n).attr_int("transB", 0) != 0);
    const int out_axis = by_row ? 0 : 1;
    if (product.group == 1) {
      gather(n, 1, out_axis, outs);
      gather(n, 1, 1 - out_axis, ins);
      return;
    }
    gather(n, 1, 0, is_conv ? outs : ins);
    rewriter_.node(n).attrs["group"] = static_cast<int64_t>(ins.size()) / product.in_group();
  }

  // Constants that have a number for each channel.
  void narrow_constants(int n) {
    const ValueId out = rewriter_.output(n);
    const Indices list = kept(out);
    const int rank = rewriter_.value(out).shape.rank;
    for (size_t i = 0; i < rewriter_.node(n).inputs.size(); ++i) {
      if (!rewriter_.is_constant(rewriter_.input(n, i))) continue;
      const Shape& shape = constant(n, i).shape();
      const int axis = 1 - (rank - shape.rank);
      if (axis >= 0 && shape[axis] == channels_.count(out) && shape[axis] > 1) gather(n, i, axis, list);
    }
  }

  void narrow_pad(int n) {
    const ChannelPad pad = *as_channel_pad(rewriter_.view(n));
    const int64_t count = channels_.count(rewriter_.input(n, 0));
    int64_t begin = 0, end = 0;
    for (int64_t c : kept(rewriter_.output(n))) {
      begin += c < pad.begin[1];
      end += c >= pad.begin[1] + count;
    }
    const size_t rank = pad.begin.size();
    const auto change = [&](Indices& pads) {
      pads[1] = begin;
      pads[rank + 1] = end;
    };
    if (rewriter_.input(n, 1) != kNoValue) return edit_ints(n, 1, change);
    Indices pads = attr_ints(rewriter_.node(n), "pads");
    change(pads);
    rewriter_.node(n).attrs["pads"] = pads;
  }

  void narrow_slice(int n) {
    const ChannelSlice slice = *as_channel_slice(rewriter_.view(n));
    if (slice.entry < 0) return;
    int64_t begin = 0;
    for (int64_t c : kept(rewriter_.input(n, 0))) begin += c < slice.begin;
    const int64_t end = begin + num_kept(rewriter_.output(n));
    const auto entry = static_cast<size_t>(slice.entry);
    edit_ints(n, 1, [&](Indices& starts) { starts[entry] = begin; });
    edit_ints(n, 2, [&](Indices& ends) { ends[entry] = end; });
  }

  void narrow_split(int n) {
    Node& node = rewriter_.node(n);
    const int rank = rewriter_.value(node.inputs[0]).shape.rank;
    int axis = 0;
    if (!normalize_axis(attr_int(node, "axis", 0), rank, &axis) || axis != 1) return;
    Indices sizes;
    for (ValueId id : node.outputs) sizes.push_back(num_kept(id));
    node.attrs.erase("num_outputs");
    if (node.opset < 13) {
      node.attrs["split"] = sizes;
      return;
    }
    rewriter_.set_input(n, 1, rewriter_.add_i64_constant(node.name + ".split", sizes));
  }

  Rewriter rewriter_;
  const ChannelNumbers& channels_;
  const std::vector<bool>& is_removed_;
  const std::vector<double>& numbers_;
};

}  // namespace

Status narrow_channels(Graph& graph, const OpRegistry& ops, const ChannelNumbers& channels,
                       const std::vector<ChannelFlow>& flows, const std::vector<bool>& is_removed,
                       const std::vector<double>& numbers) {
  Narrower narrower(graph, ops, channels, is_removed, numbers);
  for (size_t n = 0; n < flows.size(); ++n) narrower.narrow(static_cast<int>(n), flows[n]);
  KILN_TRY(narrower.finish());
  return infer_types(graph, ops);
}

}  // namespace kiln
