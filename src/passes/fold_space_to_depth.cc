#include "passes/fold_space_to_depth.h"

#include <algorithm>

#include "passes/match.h"

namespace kiln {
namespace {

constexpr int64_t kMaxBlock = 64;
constexpr int64_t kMaxWindow = 1 << 20;  // of kernel, stride and pads, below what Conv takes

// out[y, x] = source[start[0] + y * step[0], start[1] + x * step[1]] for all channels.
struct Lattice {
  ValueId source = kNoValue;
  int64_t start[2] = {0, 0};
  int64_t step[2] = {1, 1};
};

// Adds the Slice `n` in front of what `lattice` already is. False if it cuts anything else than every step-th
// pixel.
bool add_slice(Rewriter& rewriter, int n, Lattice& lattice) {
  const NodeView node = rewriter.view(n);
  if (node.opset() < 10 || !node.has_input(0) || node.input_shape(0).rank != 4) return false;
  const auto starts = ints_of(node, "", 1);
  const auto axes = ints_of(node, "", 3);
  const auto steps = ints_of(node, "", 4);
  if (!starts || !axes || axes->size() != starts->size() || (steps && steps->size() != starts->size())) return false;
  for (size_t i = 0; i < starts->size(); ++i) {
    int axis = 0;
    if (!normalize_axis((*axes)[i], 4, &axis)) return false;
    const int64_t dim = node.input_shape(0)[axis];
    const int64_t step = steps ? (*steps)[i] : 1;
    const int64_t start = (*starts)[i] < 0 ? (*starts)[i] + dim : (*starts)[i];
    if (step < 1 || step > dim || start < 0 || start >= step) return false;
    if (node.output(0).shape[axis] != (dim - start + step - 1) / step) return false;
    if (axis < 2) {
      if (step != 1) return false;
      continue;
    }
    lattice.start[axis - 2] = start + lattice.start[axis - 2] * step;
    lattice.step[axis - 2] *= step;
  }
  lattice.source = rewriter.input(n, 0);
  return true;
}

// Blocks of an image as channels: piece dy * block + dx of the channels, or place[dy * block + dx] of them.
struct Blocks {
  ValueId source = kNoValue;
  int64_t block = 0;
  std::vector<int64_t> place;
};

std::optional<Blocks> blocks_of_concat(Rewriter& rewriter, int n) {
  const Shape& out = rewriter.value(rewriter.output(n)).shape;
  const std::vector<ValueId> pieces = rewriter.node(n).inputs;
  int axis = 0;
  if (out.rank != 4 || !normalize_axis(attr_int(rewriter.node(n), "axis", 1), 4, &axis) || axis != 1)
    return std::nullopt;
  Blocks blocks;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Lattice lattice;
    lattice.source = pieces[i];
    while (lattice.source != kNoValue && rewriter.is_op(rewriter.producer(lattice.source), "Slice")) {
      if (!add_slice(rewriter, rewriter.producer(lattice.source), lattice)) return std::nullopt;
    }
    const int64_t block = lattice.step[0];
    if (block < 2 || block > kMaxBlock || lattice.step[1] != block || lattice.source == kNoValue) return std::nullopt;
    if (i == 0) {
      blocks.source = lattice.source;
      blocks.block = block;
      blocks.place.assign(static_cast<size_t>(block * block), -1);
    }
    if (lattice.source != blocks.source || block != blocks.block) return std::nullopt;
    int64_t& place = blocks.place[static_cast<size_t>(lattice.start[0] * block + lattice.start[1])];
    if (place >= 0) return std::nullopt;
    place = static_cast<int64_t>(i);
  }
  for (int64_t place : blocks.place) {
    if (place < 0) return std::nullopt;
  }
  const Shape& source = rewriter.value(blocks.source).shape;
  if (source[2] % blocks.block != 0 || source[3] % blocks.block != 0) return std::nullopt;
  return blocks;
}

std::optional<Blocks> blocks_of_node(Rewriter& rewriter, int n) {
  if (rewriter.is_op(n, "Concat")) return blocks_of_concat(rewriter, n);
  if (!rewriter.is_op(n, "SpaceToDepth") || rewriter.view(n).is_nhwc()) return std::nullopt;
  Blocks blocks;
  blocks.source = rewriter.input(n, 0);
  blocks.block = attr_int(rewriter.node(n), "blocksize", 1);
  if (blocks.block < 2 || blocks.block > kMaxBlock) return std::nullopt;
  for (int64_t i = 0; i < blocks.block * blocks.block; ++i) blocks.place.push_back(i);
  return blocks;
}

bool takes_blocks(Rewriter& rewriter, int n, ValueId x) {
  if (!rewriter.is_op(n, "Conv")) return false;
  const NodeView node = rewriter.view(n);
  const Tensor* w = node.constant(1);
  if (w == nullptr || w->dtype() != DType::kF32 || w->shape().rank != 4) return false;
  if (node.is_nhwc() || node.attr_int("group", 1) != 1 || node.node().inputs[0] != x) return false;
  if (node.has_input(3) && node.node().inputs[3] == x) return false;
  for (int64_t dilation : node.attr_ints("dilations")) {
    if (dilation != 1) return false;
  }
  int64_t largest = std::max(w->shape()[2], w->shape()[3]);
  for (const char* name : {"strides", "pads"}) {
    for (int64_t value : node.attr_ints(name)) largest = std::max(largest, value);
  }
  if (largest * kMaxBlock > kMaxWindow) return false;
  const std::string auto_pad = node.attr_string("auto_pad", "NOTSET");
  return auto_pad.empty() || auto_pad == "NOTSET" || auto_pad == "VALID";
}

void fold(Rewriter& rewriter, int n, const Blocks& blocks) {
  const Value old = rewriter.value(rewriter.input(n, 1));
  const Shape& from = old.shape;
  const int64_t b = blocks.block;
  const int64_t channels = from[1] / (b * b);
  Tensor w(DType::kF32, {from[0], channels, from[2] * b, from[3] * b});
  const float* source = old.constant->as<float>();
  for (int64_t o = 0; o < from[0]; ++o) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t y = 0; y < from[2] * b; ++y) {
        for (int64_t x = 0; x < from[3] * b; ++x) {
          const int64_t place = blocks.place[static_cast<size_t>(y % b * b + x % b)];
          const int64_t row = (o * from[1] + place * channels + c) * from[2] + y / b;
          w.as<float>()[((o * channels + c) * from[2] * b + y) * from[3] * b + x] = source[row * from[3] + x / b];
        }
      }
    }
  }
  const auto scaled = [&](const char* name, size_t count, int64_t fallback) {
    std::vector<int64_t> values = attr_ints(rewriter.node(n), name);
    if (values.empty()) values.assign(count, fallback);
    for (int64_t& value : values) value *= b;
    return values;
  };
  std::map<std::string, Attr>& attrs = rewriter.node(n).attrs;
  if (attr_string(rewriter.node(n), "auto_pad", "NOTSET") == "VALID") attrs.erase("pads");
  attrs.erase("auto_pad");
  attrs["strides"] = scaled("strides", 2, 1);
  attrs["pads"] = scaled("pads", 4, 0);
  attrs["kernel_shape"] = std::vector<int64_t>{from[2] * b, from[3] * b};
  rewriter.set_input(n, 1, rewriter.add_constant(old.name, std::move(w)));
  rewriter.set_input(n, 0, blocks.source);
}

// Removes a node that nothing reads any more, then those that only it read.
void remove_unread(Rewriter& rewriter, ValueId id) {
  const int n = rewriter.producer(id);
  if (n < 0 || !rewriter.consumers(id).empty() || rewriter.is_output(id) || rewriter.node(n).outputs.size() != 1)
    return;
  const std::vector<ValueId> inputs = rewriter.node(n).inputs;
  rewriter.remove(n);
  for (ValueId input : inputs) {
    if (input != kNoValue) remove_unread(rewriter, input);
  }
}

}  // namespace

Result<int> fold_space_to_depth(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = 0;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Concat") && !rewriter.is_op(n, "SpaceToDepth")) continue;
    const ValueId x = rewriter.output(n);
    const std::vector<int> readers = rewriter.consumers(x);
    bool all = !readers.empty() && !rewriter.is_output(x);
    for (int reader : readers) all = all && takes_blocks(rewriter, reader, x);
    if (!all) continue;
    const std::optional<Blocks> blocks = blocks_of_node(rewriter, n);
    if (!blocks) continue;
    for (int reader : readers) fold(rewriter, reader, *blocks);
    remove_unread(rewriter, x);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
