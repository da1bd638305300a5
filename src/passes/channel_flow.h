// How channels (axis 1) go through a node: which channel of an output comes from which channels of its inputs.
#pragma once

#include <optional>
#include <vector>

#include "ops/definition.h"

namespace kiln {

// Numbers the channels of all f32 values of rank 2 and more that are no constants, so that sets of channels are
// vectors.
class ChannelNumbers {
 public:
  explicit ChannelNumbers(const Graph& graph);

  int64_t size() const { return size_; }
  // How many channels a value has; 0 if they are not numbered.
  int64_t count(ValueId id) const { return id == kNoValue ? 0 : counts_[static_cast<size_t>(id)]; }
  int64_t number(ValueId id, int64_t channel) const { return first_[static_cast<size_t>(id)] + channel; }

 private:
  std::vector<int64_t> first_, counts_;  // by value
  int64_t size_ = 0;
};

// The weights of a Conv, ConvTranspose, Gemm or MatMul with constant weights, whatever order they lie in:
//   out[o] = bias[o] + alpha * (sum of in[c] * weight(o, c, tap) over the o's group of channels c and over taps)
struct ChannelProduct {
  const float* weights = nullptr;
  int64_t in = 0, out = 0;
  int64_t group = 1;
  int64_t taps = 1;
  int64_t out_stride = 0, in_stride = 0, group_stride = 0;  // of weights, in elements; within a group
  double alpha = 1;
  std::optional<std::vector<double>> bias;  // nothing where it is not one number a channel
  // Every output element sees all taps of an input element or none, at the borders too: a channel that is the same
  // number everywhere adds the same to every output element.
  bool is_even = true;

  int64_t in_group() const { return in / group; }
  int64_t out_group() const { return out / group; }
  // The first of the input channels that output channel o reads: in_group() of them.
  int64_t first_in(int64_t o) const { return o / out_group() * in_group(); }
  const float* at(int64_t o, int64_t c) const {
    return weights + o / out_group() * group_stride + o % out_group() * out_stride + c % in_group() * in_stride;
  }
  bool has_weight(int64_t o, int64_t c) const;
  double sum(int64_t o, int64_t c) const;  // over the taps
  float largest(int64_t o) const;          // |weight| of an output channel
};

// Nothing for other nodes, and for those that a layout or fusing pass has been at.
std::optional<ChannelProduct> as_channel_product(const NodeView& node);

enum class FlowKind { kOpaque, kProduct, kPointwise, kPool, kReshape, kResize, kPad, kSlice, kSplit, kConcat };

struct ChannelLink {
  int64_t in;  // numbers of channels
  int64_t out;
};

struct ChannelFlow {
  FlowKind kind = FlowKind::kOpaque;
  // For all kinds but the first two: an output channel is made of the input channels it is linked with, position by
  // position or from their neighbourhood. One without links is a constant.
  std::vector<ChannelLink> links;
  std::vector<int64_t> fixed;  // numbers of channels that this node does not let go
  std::optional<ChannelProduct> product;
};

// Nothing is known of the channels of an opaque node. All channels that a flow speaks of are numbered.
ChannelFlow find_channel_flow(const OpRegistry& ops, const NodeView& node, const ChannelNumbers& channels);

// The padding of each axis and the number that fills it, of a Pad in constant mode whose pads are constants.
struct ChannelPad {
  std::vector<int64_t> begin, end;
  double fill = 0;
};
std::optional<ChannelPad> as_channel_pad(const NodeView& node);

// Where a Slice with constant arguments begins on axis 1; `entry` is the place of axis 1 among its axes, -1 if it has
// not.
struct ChannelSlice {
  int64_t begin = 0;
  int entry = -1;
};
std::optional<ChannelSlice> as_channel_slice(const NodeView& node);

}  // namespace kiln
