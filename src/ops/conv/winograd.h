// Winograd's minimal filtering F(4x4, 3x3) for Conv: sizes that the compile side and the kernel share.
//
// Tiles of 4 x 4 outputs are made of 6 x 6 inputs by 36 products a channel pair instead of 144. After A. Lavin and S.
// Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), interpolation points 0, 1, -1, 2, -2 and infinity:
//   Y = A^T [ sum over c of (G w G^T) * (B^T x B) ] A, products taken element by element.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/gemm.h"
#include "ops/conv/conv.h"

namespace kiln::ops::conv {

constexpr int32_t kWinogradOut = 4;        // outputs of a tile along an axis
constexpr int32_t kWinogradProducts = 36;  // of a tile: 6 x 6

// Whether the kernel can run this convolution at all; whether it should is for passes/choose_winograd to say.
inline bool can_use_winograd(const ConvParams& p, int64_t in_channels, int64_t out_channels) {
  for (int i = 1; i < 3; ++i) {
    if (p.kernel[i] != 3 || p.stride[i] != 1 || p.dilation[i] != 1) return false;
  }
  return p.kernel[0] == 1 && p.group == 1 && p.input_is_nhwc != 0 && p.output_is_nhwc != 0 && in_channels % 4 == 0 &&
         in_channels >= 8 && out_channels >= 8;
}

inline int64_t winograd_tiles(int64_t batch, int64_t height, int64_t width) {
  const auto along = [](int64_t size) { return (size + kWinogradOut - 1) / kWinogradOut; };
  return batch * along(height) * along(width);
}

// Of the transformed weights, which are made at load: (panel, product, c, 8).
inline uint64_t winograd_weight_bytes(int64_t in_channels, int64_t out_channels) {
  const auto columns = static_cast<uint64_t>((out_channels + kPanelColumns - 1) / kPanelColumns * kPanelColumns);
  return kWinogradProducts * sizeof(float) * static_cast<uint64_t>(in_channels) * columns;
}

// How the tiles are cut up: a block of tiles is transformed, multiplied and transformed back by one thread; if there
// are few blocks, by several, each for a share of the outputs.
struct WinogradBlocking {
  int32_t tiles = 0;   // of a block
  int32_t panels = 0;  // of outputs at a time
  int32_t num_blocks = 0;
  int32_t most_splits = 0;  // of a block's outputs
  int32_t num_slots = 0;    // shares that may run at once, each with scratch of its own
  uint64_t slot_bytes = 0;
};

inline WinogradBlocking winograd_blocking(int64_t num_tiles, int64_t in_channels, int64_t out_channels) {
  constexpr int64_t kInputBytes = 256 << 10;  // transformed input of a block: half of the L2 cache
  constexpr int64_t kLargeInputBytes = 1 << 20;
  constexpr int64_t kSmallWeights = 256 << 10;  // larger ones stream by once a block: so there are few blocks
  constexpr int64_t kProductBytes = 128 << 10;  // products of a block
  constexpr int64_t kFewestTiles = 12;
  constexpr int64_t kMostTiles = 60;
  constexpr int64_t kTileMultiple = 12;  // whole register tiles of 4 and of 6 rows
  constexpr int64_t kMostSlots = 8;
  constexpr int64_t kMostSplits = 4;
  constexpr int64_t kFewestPanels = 4;  // of a share
  const int64_t tile_bytes = kWinogradProducts * static_cast<int64_t>(sizeof(float));
  const int64_t num_panels = (out_channels + kPanelColumns - 1) / kPanelColumns;
  const bool is_large = tile_bytes * in_channels * out_channels > kSmallWeights;
  WinogradBlocking b;
  const int64_t fitting =
      std::clamp((is_large ? kLargeInputBytes : kInputBytes) / (tile_bytes * in_channels), kFewestTiles, kMostTiles);
  const int64_t blocks = std::max<int64_t>(1, (num_tiles + fitting - 1) / fitting);
  const int64_t even = (num_tiles + blocks - 1) / blocks;
  const int64_t rounded = (even + kTileMultiple - 1) / kTileMultiple * kTileMultiple;
  b.tiles = static_cast<int32_t>(std::clamp<int64_t>(rounded, 1, std::max<int64_t>(num_tiles, 1)));
  b.num_blocks = static_cast<int32_t>((num_tiles + b.tiles - 1) / b.tiles);
  b.panels =
      static_cast<int32_t>(std::clamp<int64_t>(kProductBytes / (tile_bytes * kPanelColumns * b.tiles), 1, num_panels));
  b.most_splits = static_cast<int32_t>(std::clamp<int64_t>(num_panels / kFewestPanels, 1, kMostSplits));
  b.num_slots = static_cast<int32_t>(std::clamp<int64_t>(int64_t{b.num_blocks} * b.most_splits, 1, kMostSlots));
  const int32_t rows = (b.tiles + kFewRows - 1) / kFewRows * kFewRows;
  const auto floats = static_cast<uint64_t>(kWinogradProducts) * static_cast<uint64_t>(rows) *
                      static_cast<uint64_t>(in_channels + int64_t{b.panels} * kPanelColumns);
  b.slot_bytes = (floats * sizeof(float) + 63) / 64 * 64;
  return b;
}

inline uint64_t winograd_scratch_bytes(int64_t num_tiles, int64_t in_channels, int64_t out_channels) {
  const WinogradBlocking b = winograd_blocking(num_tiles, in_channels, out_channels);
  return b.slot_bytes * static_cast<uint64_t>(b.num_slots);
}

}  // namespace kiln::ops::conv
