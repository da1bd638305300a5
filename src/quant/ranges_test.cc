#include "quant/ranges.h"

#include <doctest/doctest.h>

#include <cmath>

namespace kiln {
namespace {

// A histogram of `density` over [min, max].
template <typename Density>
ValueStats stats_of(double min, double max, const Density& density) {
  ValueStats stats;
  stats.min = min;
  stats.max = max;
  for (int i = 0; i < 2048; ++i) {
    stats.histogram.push_back(std::floor(1e6 * density(min + (i + 0.5) * (max - min) / 2048)));
  }
  return stats;
}

double normal(double x) { return std::exp(-x * x / 2); }

constexpr RangeMethod kAll[] = {RangeMethod::kSearch, RangeMethod::kMinMax, RangeMethod::kPercentile,
                                RangeMethod::kEntropy, RangeMethod::kMse};

}  // namespace

TEST_SUITE("quant/ranges") {
  TEST_CASE("every_range_holds_zero_and_nothing_that_was_not_seen") {
    const ValueStats shapes[] = {stats_of(-4, 4, normal), stats_of(0, 6, normal), stats_of(1, 3, normal),
                                 stats_of(-3, -1, normal)};
    for (const ValueStats& stats : shapes) {
      for (RangeMethod method : kAll) {
        const Range range = choose_range(stats, method);
        CHECK(range.low <= 0);
        CHECK(range.high >= 0);
        CHECK(range.low >= 1.31 * std::fmin(stats.min, 0));
        CHECK(range.high <= 1.31 * std::fmax(stats.max, 0));
        CHECK(range.high > range.low);
      }
    }
  }

  TEST_CASE("outliers_are_clipped_by_all_but_minmax") {
    // A normal distribution, and five values far out among 5e8.
    ValueStats stats = stats_of(-100, 100, normal);
    stats.histogram[2047] = 5;
    CHECK(choose_range(stats, RangeMethod::kMinMax).high == 100);
    for (RangeMethod method :
         {RangeMethod::kSearch, RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse}) {
      CAPTURE(static_cast<int>(method));
      const Range range = choose_range(stats, method);
      CHECK(range.high < 40);
      CHECK(range.high > 2);
    }
  }

  TEST_CASE("ends_are_scaled_apart") {
    // As SiLU gives: dense down to -0.28, a long tail upwards. The lower end must stay.
    const ValueStats stats = stats_of(-0.28, 20, [](double x) { return x < 0 ? 1.0 : std::exp(-x * 2); });
    for (RangeMethod method : {RangeMethod::kSearch, RangeMethod::kMse}) {
      const Range range = choose_range(stats, method);
      CHECK(range.low < -0.25);
      CHECK(range.high < 15);
      CHECK(clipped_share(stats, range) < 0.02);
    }
  }

  TEST_CASE("scales_hold_zero_exactly") {
    for (const Range& range : {Range{-1, 1}, Range{0, 6}, Range{-3, 0}, Range{0, 0}, Range{-1e-12, 1e-12}}) {
      const ByteScale scale = scale_of_range(range);
      CHECK(scale.scale > 0);
      CHECK(scale.zero >= 0);
      CHECK(scale.zero <= 255);
      CHECK(std::fabs((255 - scale.zero) * double{scale.scale} - range.high) <= std::fmax(double{scale.scale}, 1e-7));
    }
  }

  TEST_CASE("a_constant_or_unseen_value_has_a_range") {
    for (RangeMethod method : kAll) {
      ValueStats flat;
      flat.min = flat.max = 3;
      CHECK(choose_range(flat, method).high == 3);
      CHECK(scale_of_range(choose_range(ValueStats{}, method)).scale > 0);
    }
  }
}

}  // namespace kiln
