// What calibration writes for the compiler to read, and what the compiler says of quantisation, both JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "quant/quant_job.h"

namespace kiln {

// {"version":1,"samples":N,"values":{NAME:{"min":x,"max":x,"histogram":[…],"channel_mean":[…]}}}. kInvalidArgument
// names what is missing or wrong.
Result<CalibrationStats> read_calibration_stats(std::span<const uint8_t> json);

// {"precision":"int8","method":…,"samples":N,"macs":N,"int8_macs":N,"head_macs":N,"head":[…],"notices":[…],"layers":[…]}
std::string quant_report_json(const QuantJob& job);

}  // namespace kiln
