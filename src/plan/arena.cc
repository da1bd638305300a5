#include "plan/arena.h"

#include <algorithm>
#include <numeric>

namespace kiln {
namespace {

uint64_t align_up(uint64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

bool meet(const ArenaBuffer& a, const ArenaBuffer& b, int32_t num_steps) {
  if (a.first <= b.last && b.first <= a.last) return true;
  return (a.first < 0 && b.last >= num_steps) || (b.first < 0 && a.last >= num_steps);
}

// Places buffers in the order given; returns the end of the arena.
uint64_t place_in_order(std::vector<ArenaBuffer>& buffers, const std::vector<size_t>& order, int32_t num_steps) {
  uint64_t end = 0;
  std::vector<size_t> placed;  // sorted by offset
  for (size_t index : order) {
    ArenaBuffer& buffer = buffers[index];
    buffer.offset = 0;
    if (buffer.bytes == 0) continue;
    uint64_t best = UINT64_MAX;
    uint64_t best_gap = UINT64_MAX;
    uint64_t free_from = 0;
    for (size_t other_index : placed) {
      const ArenaBuffer& other = buffers[other_index];
      if (!meet(buffer, other, num_steps)) continue;
      if (other.offset >= free_from + buffer.bytes && other.offset - free_from < best_gap) {
        best = free_from;
        best_gap = other.offset - free_from;
      }
      free_from = std::max(free_from, align_up(other.offset + other.bytes));
    }
    buffer.offset = best != UINT64_MAX ? best : free_from;
    end = std::max(end, align_up(buffer.offset + buffer.bytes));
    const auto at =
        std::find_if(placed.begin(), placed.end(), [&](size_t other) { return buffers[other].offset > buffer.offset; });
    placed.insert(at, index);
  }
  return end;
}

uint64_t peak_of(const std::vector<ArenaBuffer>& buffers, int32_t num_steps) {
  // Index 0 is the time before the first step, which is also when the last run's outputs are read.
  std::vector<uint64_t> change(static_cast<size_t>(num_steps) + 3);
  uint64_t boundary = 0;
  for (const ArenaBuffer& buffer : buffers) {
    change[static_cast<size_t>(buffer.first + 1)] += buffer.bytes;
    change[static_cast<size_t>(buffer.last + 2)] -= buffer.bytes;  // wraps around, and back in the sum
    if (buffer.first < 0 || buffer.last >= num_steps) boundary += buffer.bytes;
  }
  uint64_t peak = boundary;
  uint64_t live = 0;
  for (uint64_t delta : change) {
    live += delta;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace

ArenaSize place_buffers(std::vector<ArenaBuffer>& buffers, int32_t num_steps) {
  ArenaSize size;
  size.peak_live_bytes = peak_of(buffers, num_steps);

  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto sort_by = [&](auto weight) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const uint64_t weight_a = weight(buffers[a]);
      const uint64_t weight_b = weight(buffers[b]);
      return weight_a != weight_b ? weight_a > weight_b : a < b;
    });
  };
  sort_by([](const ArenaBuffer& buffer) { return buffer.bytes; });
  size.arena_bytes = place_in_order(buffers, order, num_steps);
  if (size.arena_bytes <= align_up(size.peak_live_bytes)) return size;

  std::vector<ArenaBuffer> second = buffers;
  sort_by(
      [](const ArenaBuffer& buffer) { return buffer.bytes * static_cast<uint64_t>(buffer.last - buffer.first + 1); });
  const uint64_t second_bytes = place_in_order(second, order, num_steps);
  if (second_bytes < size.arena_bytes) {
    size.arena_bytes = second_bytes;
    buffers = std::move(second);
  }
  return size;
}

}  // namespace kiln
