#include "plan/halves.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/status.h"
#include "plan/weights.h"

namespace kiln {
namespace {

struct Constant {
  uint64_t offset;
  uint64_t bytes;
  bool is_f32;

  bool operator<(const Constant& other) const {
    if (offset != other.offset) return offset < other.offset;
    return bytes != other.bytes ? bytes < other.bytes : is_f32 < other.is_f32;
  }
};

Constant constant_of(const PlanTensor& tensor) { return {tensor.offset, tensor.bytes, tensor.dtype == DType::kF32}; }

// What some step reads that is no product of weights.
std::set<Constant> find_tables(const Plan& plan) {
  std::set<Constant> tables;
  for (const PlanProfile& profile : plan.profiles) {
    for (const PlanStep& step : profile.steps) {
      if (step.macs > 0 || step.op == "Gather") continue;
      for (int32_t index : step.inputs) {
        if (index < 0) continue;
        const PlanTensor& tensor = profile.tensors[static_cast<size_t>(index)];
        if (tensor.storage == Storage::kWeights) tables.insert(constant_of(tensor));
      }
    }
  }
  return tables;
}

// The constants to store as halves: all that are large enough, without the smallest of them.
std::set<Constant> find_candidates(const Plan& plan) {
  const std::set<Constant> tables = find_tables(plan);
  std::set<Constant> candidates;
  uint64_t total = 0;
  for (const PlanProfile& profile : plan.profiles) {
    for (const PlanTensor& tensor : profile.tensors) {
      const Constant constant = constant_of(tensor);
      const bool is_weights = tensor.storage == Storage::kWeights && constant.is_f32 && tables.count(constant) == 0;
      if (!is_weights || constant.bytes < kFewestHalves * sizeof(float)) continue;
      if (candidates.insert(constant).second) total += constant.bytes;
    }
  }
  std::vector<Constant> by_size(candidates.begin(), candidates.end());
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Constant& a, const Constant& b) { return a.bytes < b.bytes; });
  uint64_t kept = 0;
  for (const Constant& constant : by_size) {
    kept += constant.bytes;
    if (kept * kFullPart > total) break;
    candidates.erase(constant);
  }
  return candidates;
}

// Empty if halves cannot hold the numbers.
std::vector<uint16_t> round_to_halves(const uint8_t* data, size_t count) {
  std::vector<uint16_t> halves(count);
  size_t used = 0, tiny = 0;
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    halves[i] = f32_to_f16(value);
    if ((halves[i] & 0x7c00u) == 0x7c00u) return {};
    if (value == 0) continue;
    ++used;
    if (std::fabs(value) < 0x1p-14f && f16_to_f32(halves[i]) != value) ++tiny;
  }
  if (static_cast<double>(tiny) > kLargestTinyShare * static_cast<double>(used)) return {};
  return halves;
}

}  // namespace

std::vector<std::string> store_halves(Plan& plan) {
  struct Place {
    Storage storage;
    uint64_t offset;
  };
  const std::set<Constant> candidates = find_candidates(plan);
  std::map<Constant, Place> places;
  WeightsPool weights(0), halves(plan.weights.size() / 2);
  int refused = 0;
  uint64_t refused_bytes = 0;
  const auto place = [&](const Constant& constant) -> Place {
    const uint8_t* data = plan.weights.data() + constant.offset;
    const size_t count = static_cast<size_t>(constant.bytes) / sizeof(float);
    if (candidates.count(constant) > 0) {
      const std::vector<uint16_t> rounded = round_to_halves(data, count);
      if (!rounded.empty()) return {Storage::kHalves, halves.add(rounded.data(), count * sizeof(uint16_t)) * 2};
      ++refused;
      refused_bytes += constant.bytes;
    }
    return {Storage::kWeights, weights.add(data, static_cast<size_t>(constant.bytes))};
  };
  for (PlanProfile& profile : plan.profiles) {
    for (PlanTensor& tensor : profile.tensors) {
      if (tensor.storage != Storage::kWeights) continue;
      const Constant constant = constant_of(tensor);
      auto found = places.find(constant);
      if (found == places.end()) found = places.emplace(constant, place(constant)).first;
      tensor.storage = found->second.storage;
      tensor.offset = found->second.offset;
    }
  }
  plan.weights = weights.take();
  plan.halves = halves.take();
  if (refused == 0) return {};
  return {strf("--weights fp16: %d of the constants (%llu bytes) stay f32, because halves cannot hold their numbers",
               refused, static_cast<unsigned long long>(refused_bytes))};
}

}  // namespace kiln
