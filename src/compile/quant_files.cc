#include "compile/quant_files.h"

#include <cmath>

#include "compile/json.h"
#include "compile/json_read.h"

namespace kiln {
namespace {

Status wrong(const std::string& why) { return {Code::kInvalidArgument, "calibration statistics: " + why}; }

bool read_numbers(const JsonValue* list, std::vector<double>* out) {
  if (list == nullptr || list->kind != JsonValue::kArray) return false;
  for (const JsonValue& item : list->items) {
    if (item.kind != JsonValue::kNumber || !std::isfinite(item.number)) return false;
    out->push_back(item.number);
  }
  return true;
}

}  // namespace

Result<CalibrationStats> read_calibration_stats(std::span<const uint8_t> json) {
  KILN_ASSIGN(const JsonValue root, read_json(json));
  const JsonValue* version = root.find("version");
  if (version == nullptr || version->number != 1) return wrong("version must be 1");
  const JsonValue* values = root.find("values");
  if (values == nullptr || values->kind != JsonValue::kObject) return wrong("\"values\" is missing");
  CalibrationStats stats;
  if (const JsonValue* samples = root.find("samples")) stats.samples = static_cast<int64_t>(samples->number);
  for (size_t i = 0; i < values->keys.size(); ++i) {
    const JsonValue& from = values->items[i];
    ValueStats& to = stats.values[values->keys[i]];
    const JsonValue* min = from.find("min");
    const JsonValue* max = from.find("max");
    if (min == nullptr || max == nullptr || !std::isfinite(min->number) || !std::isfinite(max->number) ||
        min->kind != JsonValue::kNumber || max->kind != JsonValue::kNumber || min->number > max->number) {
      return wrong("min and max of '" + values->keys[i] + "' must be finite numbers, min <= max");
    }
    to.min = min->number;
    to.max = max->number;
    if (!read_numbers(from.find("histogram"), &to.histogram)) {
      return wrong("histogram of '" + values->keys[i] + "' must be a list of counts");
    }
    const std::pair<const char*, std::vector<double>*> lists[] = {
        {"channel_mean", &to.channel_mean}, {"channel_min", &to.channel_min}, {"channel_max", &to.channel_max}};
    for (const auto& [key, list] : lists) {
      if (from.find(key) != nullptr && !read_numbers(from.find(key), list)) {
        return wrong(std::string(key) + " of '" + values->keys[i] + "' must be a list of numbers");
      }
    }
  }
  return stats;
}

std::string quant_report_json(const QuantJob& job) {
  std::string layers;
  int64_t macs = 0;
  int64_t int8_macs = 0;
  int64_t head_macs = 0;
  for (const QuantLayer& layer : job.layers) {
    macs += layer.macs;
    if (layer.is_int8) int8_macs += layer.macs;
    if (layer.reason == "head") head_macs += layer.macs;
    layers += (layers.empty() ? "" : ",") + ("{\"name\":" + json_string(layer.name)) +
              ",\"op\":" + json_string(layer.op) + ",\"inputs\":" + json_strings({layer.input}) +
              ",\"output\":" + json_string(layer.output) +
              strf(",\"macs\":%lld,\"precision\":\"%s\"", static_cast<long long>(layer.macs),
                   layer.is_int8 ? "int8" : "float") +
              ",\"reason\":" + json_string(layer.reason) +
              strf(
                  ",\"input_scale\":%.9g,\"scale\":%.9g,\"zero_point\":%d,\"clipped\":%.3g,\"int8_us\":%.4g,"
                  "\"float_us\":%.4g}",
                  layer.input_scale, layer.scale, layer.zero_point, layer.clipped, layer.int8_us, layer.float_us);
  }
  return "{\"precision\":\"int8\",\"method\":\"" + std::string(kRangeMethods[static_cast<int>(job.method)]) +
         strf("\",\"samples\":%lld,\"macs\":%lld,\"int8_macs\":%lld,\"head_macs\":%lld",  //
              static_cast<long long>(job.stats.samples), static_cast<long long>(macs),
              static_cast<long long>(int8_macs), static_cast<long long>(head_macs)) +
         ",\"head\":" + json_strings(job.head) + ",\"notices\":" + json_strings(job.notices) + ",\"layers\":[" +
         layers + "]}\n";
}

}  // namespace kiln
