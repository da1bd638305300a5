#include "quant/times.h"

#include "quant/roles.h"

namespace kiln {
namespace {

// Multiply-adds a microsecond.
constexpr double kFloat = 25e3;
constexpr double kInt8 = 38e3;
constexpr double kDepthwiseFloat = 7e3;
constexpr double kDepthwiseInt8 = 7.5e3;
constexpr double kRescale = 4e3;  // outputs a microsecond
constexpr double kStore = 4e3;    // the same of real numbers, four times the bytes
constexpr double kColumns = 8;    // of the register tile: fewer filters cost as many

}  // namespace

PredictedTimes predict_times(const NodeView& product) {
  const auto macs = static_cast<double>(product_macs(product));
  const Shape& y = product.output(0).shape;
  const auto outputs = static_cast<double>(y.num_elements());
  const bool is_depthwise = product.node().op == "Conv" && product.input_shape(1)[1] == 1;
  PredictedTimes times;
  if (is_depthwise) {
    times.float_us = macs / kDepthwiseFloat;
    times.int8_us = macs / kDepthwiseInt8;
    return times;
  }
  const auto filters = static_cast<double>(y[y.rank - 1]);
  const double padded = filters < kColumns ? kColumns / filters : 1;
  times.float_us = padded * macs / kFloat + outputs / kStore;
  times.int8_us = padded * macs / kInt8 + outputs / kRescale;
  return times;
}

}  // namespace kiln
