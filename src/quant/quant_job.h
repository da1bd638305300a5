// What a compilation is asked of quantisation, and what it says of it: shared by the driver and the pass.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kiln {

// How the range of an activation is chosen from its histogram.
enum class RangeMethod { kSearch, kMinMax, kPercentile, kEntropy, kMse };
// The names that --calib-method takes, in the order of the enum.
inline constexpr const char* kRangeMethods[] = {"search", "minmax", "percentile", "entropy", "mse"};

// What was seen of one value over the calibration set.
struct ValueStats {
  double min = 0, max = 0;
  std::vector<double> histogram;                 // counts over [min, max], bins of one width
  std::vector<double> channel_mean;              // over everything but the last axis; empty for rank 0 and 1
  std::vector<double> channel_min, channel_max;  // the same
};

struct CalibrationStats {
  int64_t samples = 0;
  std::map<std::string, ValueStats> values;
};

// A convolution or product in the report.
struct QuantLayer {
  std::string name, op;
  std::string input, output;  // values: its data, what it makes
  int64_t macs = 0;
  bool is_int8 = false;
  std::string reason;  // why it stayed float
  double input_scale = 0;
  double scale = 0;  // of the output; 0: real numbers
  int32_t zero_point = 0;
  double clipped = 0;                // share of the output's values outside the range
  double int8_us = 0, float_us = 0;  // predicted, one core
};

struct QuantJob {
  // asked
  bool quantizes = false;  // --precision int8
  bool observes = false;   // --observe: values of interest become outputs
  bool quantizes_head = false;
  RangeMethod method = RangeMethod::kSearch;
  std::vector<std::string> keep_float;  // node names
  CalibrationStats stats;
  // answered
  std::vector<std::string> observed;
  std::vector<QuantLayer> layers;
  std::vector<std::string> head;
  std::vector<std::string> notices;
};

}  // namespace kiln
