#include "passes/choose_winograd.h"

#include <algorithm>
#include <set>

#include "ops/conv/winograd.h"
#include "passes/rewriter.h"

namespace kiln {
namespace {

// Cycles of one core with 128-bit vectors and a multiply-add of two ports; only ratios matter.
constexpr double kMacsPerCycle = 8;
constexpr double kInputCycles = 35;          // transforming one channel of a tile
constexpr double kOutputCycles = 25;         // the same on the way back
constexpr double kBytesPerCycle = 8;         // of weights from memory
constexpr double kSmallWeights = 256 << 10;  // bytes that stay in the L2 cache from block to block
constexpr double kLargestShare = 0.8;        // of the direct time
constexpr double kLeastSaved = 0.25;         // cycles a byte of transformed weights

struct Candidate {
  int node;
  double saved;  // cycles
  uint64_t bytes;
};

// What Winograd would save, or 0 if it cannot or should not run.
double saved_cycles(const NodeView& node, uint64_t& bytes) {
  if (!node.is_nhwc() || node.constant(1) == nullptr || node.attr_string("input_layout", "NHWC") != "NHWC") return 0;
  if (node.has_input(2) && node.constant(2) == nullptr) return 0;
  const Shape& x = node.input_shape(0);
  const Shape& w = node.input_shape(1);
  const Shape& y = node.output(0).shape;
  ops::conv::ConvParams params;
  const auto all_are = [&](const char* name, int64_t value) {
    for (int64_t v : node.attr_ints(name)) {
      if (v != value) return false;
    }
    return true;
  };
  if (x.rank != 4 || w[2] != 3 || w[3] != 3 || !all_are("strides", 1) || !all_are("dilations", 1)) return 0;
  params.kernel[1] = params.kernel[2] = 3;
  params.group = static_cast<int32_t>(node.attr_int("group", 1));
  params.input_is_nhwc = params.output_is_nhwc = 1;
  const int64_t in_channels = x[3];
  const int64_t out_channels = y[3];
  if (!ops::conv::can_use_winograd(params, in_channels, out_channels)) return 0;

  bytes = ops::conv::winograd_weight_bytes(in_channels, out_channels);
  const int64_t num_tiles = ops::conv::winograd_tiles(y[0], y[1], y[2]);
  if (num_tiles > INT32_MAX / 64 || bytes > INT32_MAX) return 0;
  const ops::conv::WinogradBlocking blocking = ops::conv::winograd_blocking(num_tiles, in_channels, out_channels);
  const auto tiles = static_cast<double>(num_tiles);
  const auto pairs = static_cast<double>(in_channels) * static_cast<double>(out_channels);
  const double direct = static_cast<double>(y[0] * y[1] * y[2]) * 9 * pairs / kMacsPerCycle;
  const double sweeps = static_cast<double>(bytes) < kSmallWeights ? 1 : static_cast<double>(blocking.num_blocks);
  const double rows = static_cast<double>((num_tiles + 1) / 2 * 2);
  const double winograd = rows * ops::conv::kWinogradProducts * pairs / kMacsPerCycle +
                          tiles * static_cast<double>(in_channels) * kInputCycles +
                          tiles * static_cast<double>(out_channels) * kOutputCycles +
                          sweeps * static_cast<double>(bytes) / kBytesPerCycle;
  const double saved = direct - winograd;
  return winograd <= kLargestShare * direct && saved >= kLeastSaved * static_cast<double>(bytes) ? saved : 0;
}

// Bytes that transformed weights may take.
double memory_budget(const Graph& graph) {
  double bytes = 0;
  for (const Value& value : graph.values) {
    if (value.constant != nullptr) bytes += static_cast<double>(value.constant->bytes());
  }
  return bytes * graph.prepared_budget;
}

}  // namespace

Result<int> choose_winograd(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  double budget = memory_budget(rewriter.graph());
  std::vector<Candidate> candidates;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Conv")) continue;
    uint64_t bytes = 0;
    const double saved = saved_cycles(rewriter.view(n), bytes);
    if (saved > 0) candidates.push_back({n, saved, bytes});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.saved * static_cast<double>(b.bytes) > b.saved * static_cast<double>(a.bytes);
  });
  int changes = 0;
  std::set<ValueId> transformed;  // weights, which several nodes may share
  for (const Candidate& candidate : candidates) {
    const ValueId weights = rewriter.node(candidate.node).inputs[1];
    const double bytes = transformed.count(weights) > 0 ? 0 : static_cast<double>(candidate.bytes);
    if (bytes > budget) continue;
    budget -= bytes;
    transformed.insert(weights);
    rewriter.node(candidate.node).attrs["algorithm"] = std::string("winograd4");
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
