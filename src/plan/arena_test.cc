#include "plan/arena.h"

#include <doctest/doctest.h>

#include <random>

#include "soak.h"

namespace kiln {
namespace {

bool overlap_in_time(const ArenaBuffer& a, const ArenaBuffer& b, int32_t num_steps) {
  if (a.first <= b.last && b.first <= a.last) return true;
  return (a.first < 0 && b.last >= num_steps) || (b.first < 0 && a.last >= num_steps);
}

// Nothing that is alive together shares bytes; the arena holds all of it; the peak is a lower bound.
void check_layout(const std::vector<ArenaBuffer>& buffers, const ArenaSize& size, int32_t num_steps) {
  CHECK(size.arena_bytes >= size.peak_live_bytes);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ArenaBuffer& a = buffers[i];
    CHECK(a.offset % kArenaAlignment == 0);
    CHECK(a.offset + a.bytes <= size.arena_bytes);
    for (size_t j = 0; j < i; ++j) {
      const ArenaBuffer& b = buffers[j];
      if (!overlap_in_time(a, b, num_steps)) continue;
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      CHECK(apart);
    }
  }
}

// A convolutional backbone with skip connections and a head that joins three levels, as YOLO has: the sizes
// of 640 x 640.
std::vector<ArenaBuffer> detector_like(int32_t* num_steps) {
  std::vector<ArenaBuffer> buffers;
  int32_t step = 0;
  buffers.push_back({3 * 640 * 640 * 4, -1, 0, 0});
  uint64_t side = 320, channels = 16;
  std::vector<size_t> levels;
  for (int level = 0; level < 5; ++level) {
    const uint64_t bytes = side * side * channels * 4;
    buffers.push_back({bytes, step, step + 1, 0});  // strided convolution
    ++step;
    buffers.push_back({bytes, step, step + 4, 0});  // its block: a wide tensor that collects pieces
    for (int inner = 0; inner < 3; ++inner) {
      buffers.push_back({bytes / 2, step, step + 1, 0});
      buffers.push_back({bytes / 3, step, step, 0});  // scratch
      ++step;
    }
    levels.push_back(buffers.size());
    buffers.push_back({bytes, step, step + 1, 0});
    ++step;
    side /= 2;
    channels *= 2;
  }
  for (size_t level : levels) {
    if (level != levels[0] && level != levels[1]) buffers[level].last = step + 3;
  }
  for (int head = 0; head < 3; ++head) {
    const uint64_t cells = uint64_t{80} >> head;
    buffers.push_back({cells * cells * 144 * 4, step, step + 3 - head, 0});
    ++step;
  }
  buffers.push_back({84 * 8400 * 4, step, step + 1, 0});
  ++step;
  *num_steps = step;
  return buffers;
}

TEST_CASE("arena_of_nothing_is_empty") {
  std::vector<ArenaBuffer> buffers;
  const ArenaSize size = place_buffers(buffers, 0);
  CHECK(size.arena_bytes == 0);
  CHECK(size.peak_live_bytes == 0);
}

TEST_CASE("arena_reuses_what_is_dead_and_keeps_inputs_from_outputs") {
  //                                     input        step 0 → 1  step 1 → 2  output of step 2
  std::vector<ArenaBuffer> buffers = {{1000, -1, 0, 0}, {1000, 0, 1, 0}, {1000, 1, 2, 0}, {1000, 2, 3, 0}};
  const ArenaSize size = place_buffers(buffers, 3);
  check_layout(buffers, size, 3);
  CHECK(size.peak_live_bytes == 2000);
  CHECK(size.arena_bytes == 2048);
  CHECK(buffers[0].offset == buffers[2].offset);
  CHECK(buffers[0].offset != buffers[3].offset);
}

TEST_CASE("arena_places_random_buffers_apart" * doctest::test_suite("random")) {
  for (uint32_t seed = 0; seed < test::soak_cases(200); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
    const int32_t num_steps = 1 + below(40);
    std::vector<ArenaBuffer> buffers;
    for (int i = below(60); i > 0; --i) {
      const int32_t first = below(static_cast<uint32_t>(num_steps) + 1) - 1;
      const int32_t last = first + below(static_cast<uint32_t>(num_steps - first) + 1);
      buffers.push_back({static_cast<uint64_t>(below(5) == 0 ? 0 : below(100000)), first, last, 0});
    }
    std::vector<ArenaBuffer> again = buffers;
    const ArenaSize size = place_buffers(buffers, num_steps);
    check_layout(buffers, size, num_steps);
    place_buffers(again, num_steps);
    for (size_t i = 0; i < buffers.size(); ++i) CHECK(again[i].offset == buffers[i].offset);
  }
}

TEST_CASE("arena_of_network_like_lifetimes_is_close_to_the_peak" * doctest::test_suite("random")) {
  int32_t num_steps = 0;
  std::vector<ArenaBuffer> buffers = detector_like(&num_steps);
  ArenaSize size = place_buffers(buffers, num_steps);
  check_layout(buffers, size, num_steps);
  CHECK(static_cast<double>(size.arena_bytes) <= 1.3 * static_cast<double>(size.peak_live_bytes));

  // Chains with skips of random lengths: what residual and dense blocks make.
  double worst = 0;
  for (uint32_t seed = 0; seed < test::soak_cases(100); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const int32_t steps = 60;
    buffers.clear();
    uint64_t bytes = 1 << 20;
    for (int32_t s = 0; s < steps; ++s) {
      const auto skip = static_cast<int32_t>(random() % 4 == 0 ? 2 + random() % 6 : 1);
      buffers.push_back({bytes, s - 1, std::min(s - 1 + skip, steps), 0});
      if (random() % 8 == 0) bytes = bytes / 4 * (1 + random() % 4);
      if (bytes < 4096) bytes = 1 << 18;
    }
    size = place_buffers(buffers, steps);
    check_layout(buffers, size, steps);
    worst = std::max(worst, static_cast<double>(size.arena_bytes) / static_cast<double>(size.peak_live_bytes));
  }
  MESSAGE("largest arena / peak: " << worst);
  CHECK(worst <= 1.3);
}

}  // namespace
}  // namespace kiln
