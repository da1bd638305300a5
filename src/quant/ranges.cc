#include "quant/ranges.h"

#include <algorithm>
#include <cmath>

namespace kiln {
namespace {

constexpr double kLevels = 255;

// The bins of a histogram with what lies in them.
struct Bins {
  explicit Bins(const ValueStats& stats)
      : counts(stats.histogram), low(stats.min), width((stats.max - stats.min) / double(stats.histogram.size())) {
    for (double count : counts) total += count;
  }
  double centre(size_t i) const { return low + (static_cast<double>(i) + 0.5) * width; }
  double begin(size_t i) const { return low + static_cast<double>(i) * width; }

  const std::vector<double>& counts;
  double low, width;
  double total = 0;
};

Range with_zero(double low, double high) { return {std::min(low, 0.0), std::max(high, 0.0)}; }

// Leaves out at most `share` of the values, at the ends beyond 0.
Range cut_tails(const Bins& bins, const ValueStats& stats, double share) {
  const double most = bins.total * share / 2;
  size_t first = 0;
  size_t last = bins.counts.size();
  for (double left = 0; first < last && left + bins.counts[first] <= most; ++first) left += bins.counts[first];
  for (double left = 0; last > first && left + bins.counts[last - 1] <= most; --last) left += bins.counts[last - 1];
  return with_zero(first == 0 ? stats.min : bins.begin(first),
                   last == bins.counts.size() ? stats.max : bins.begin(last));
}

double squared_error(const Bins& bins, const Range& range) {
  const ByteScale q = scale_of_range(range);
  double error = 0;
  for (size_t i = 0; i < bins.counts.size(); ++i) {
    if (bins.counts[i] == 0) continue;
    const double x = bins.centre(i);
    const double level = std::clamp(std::nearbyint(x / q.scale), -double(q.zero), kLevels - q.zero);
    // Within a bin values spread evenly; where bins are finer than levels that does not matter.
    const double off = x - level * q.scale;
    error += bins.counts[i] * off * off;
  }
  return error;
}

// Factors of a range's ends that are tried.
struct Factors {
  double from, to, step;
};

// The range with the least cost, first of all factors of the upper end, then of the lower one, and once more: the ends
// are not scaled together, since one may be a tail and the other, as of SiLU, where most values lie.
template <typename Cost>
Range least_cost(const Range& start, const Factors& factors, const Cost& cost) {
  Range best = start;
  double least = cost(best);
  for (int round = 0; round < 2; ++round) {
    for (double Range::*end : {&Range::high, &Range::low}) {
      if (start.*end == 0) continue;
      Range candidate = best;
      for (double factor = factors.from; factor < factors.to + factors.step / 2; factor += factors.step) {
        candidate.*end = start.*end * factor;
        const double found = cost(candidate);
        if (found >= least) continue;
        least = found;
        best = candidate;
      }
    }
  }
  return best;
}

Range least_error(const Bins& bins, const Range& start, const Factors& factors) {
  return least_cost(start, factors, [&](const Range& range) { return squared_error(bins, range); });
}

// Kullback-Leibler divergence of the clipped distribution from what rounding to 256 levels leaves of it.
double divergence(const Bins& bins, const Range& range) {
  const size_t n = bins.counts.size();
  std::vector<double> clipped(n, 0);
  std::vector<double> rounded(n, 0);
  const ByteScale q = scale_of_range(range);
  const auto level_of = [&](double x) {
    return static_cast<size_t>(std::clamp(std::nearbyint(x / q.scale) + q.zero, 0.0, kLevels));
  };
  double sums[256] = {};
  double used[256] = {};
  size_t first = n;
  size_t last = 0;
  for (size_t i = 0; i < n; ++i) {
    if (bins.centre(i) < range.low || bins.centre(i) > range.high) continue;
    first = std::min(first, i);
    last = i;
  }
  if (first > last) return INFINITY;
  for (size_t i = 0; i < n; ++i) {
    clipped[std::clamp(i, first, last)] += bins.counts[i];
    if (i < first || i > last || bins.counts[i] == 0) continue;
    const size_t level = level_of(bins.centre(i));
    sums[level] += bins.counts[i];
    used[level] += 1;
  }
  double total = 0;
  for (size_t i = first; i <= last; ++i) {
    const size_t level = level_of(bins.centre(i));
    if (bins.counts[i] != 0) rounded[i] = sums[level] / used[level];
    total += rounded[i];
  }
  if (total == 0) return INFINITY;
  constexpr double kSmall = 1e-9;
  double sum = 0;
  for (size_t i = first; i <= last; ++i) {
    const double p = clipped[i] / bins.total;
    if (p > 0) sum += p * std::log(p / std::max(rounded[i] / total, kSmall));
  }
  return sum;
}

Range least_divergence(const Bins& bins, const Range& start) {
  return least_cost(start, {0.3, 1, 0.01}, [&](const Range& range) { return divergence(bins, range); });
}

}  // namespace

ByteScale scale_of_range(const Range& range) {
  const double span = std::max(range.high - range.low, 1e-8);
  ByteScale q;
  q.scale = static_cast<float>(span / kLevels);
  q.zero = static_cast<int32_t>(std::clamp(std::nearbyint(-range.low / static_cast<double>(q.scale)), 0.0, kLevels));
  return q;
}

Range choose_range(const ValueStats& stats, RangeMethod method) {
  const Range all = with_zero(stats.min, stats.max);
  if (stats.histogram.empty() || !(stats.max > stats.min) || method == RangeMethod::kMinMax) return all;
  const Bins bins(stats);
  switch (method) {
    case RangeMethod::kPercentile:
      return cut_tails(bins, stats, 1e-5);
    case RangeMethod::kMse:
      return least_error(bins, all, {0.2, 1, 0.01});
    case RangeMethod::kEntropy:
      return least_divergence(bins, all);
    default:
      return least_error(bins, cut_tails(bins, stats, 1e-6), {0.7, 1.3, 0.01});
  }
}

double clipped_share(const ValueStats& stats, const Range& range) {
  if (stats.histogram.empty()) return 0;
  const Bins bins(stats);
  double outside = 0;
  for (size_t i = 0; i < bins.counts.size(); ++i) {
    const double x = bins.centre(i);
    if (x < range.low - bins.width || x > range.high + bins.width) outside += bins.counts[i];
  }
  return bins.total > 0 ? outside / bins.total : 0;
}

}  // namespace kiln
