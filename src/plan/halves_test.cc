#include "plan/halves.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace kiln {
namespace {

// A plan of two profiles; each has one step for every constant, "MatMul" with MACs or `op` without.
Plan plan_with(const std::vector<std::vector<float>>& constants, const char* op = "MatMul") {
  Plan plan;
  PlanProfile profile;
  for (const std::vector<float>& constant : constants) {
    PlanTensor tensor;
    tensor.name = "w";
    tensor.dtype = DType::kF32;
    tensor.shape = Shape{static_cast<int64_t>(constant.size())};
    tensor.strides[0] = 1;
    tensor.storage = Storage::kWeights;
    tensor.bytes = constant.size() * sizeof(float);
    tensor.offset = (plan.weights.size() + 63) / 64 * 64;
    plan.weights.resize(tensor.offset + tensor.bytes);
    std::memcpy(plan.weights.data() + tensor.offset, constant.data(), tensor.bytes);
    profile.steps.push_back({"kernel", op, "node", {}, {static_cast<int32_t>(profile.tensors.size()), -1}, {}});
    profile.steps.back().macs = std::strcmp(op, "MatMul") == 0 ? 1 : 0;
    profile.tensors.push_back(tensor);
  }
  plan.profiles = {profile, profile};
  return plan;
}

std::vector<float> ramp(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = (static_cast<float>(i) - 100) * step;
  return values;
}

bool is_stored_as_halves(const std::vector<float>& constant, const char* op = "MatMul") {
  Plan plan = plan_with({constant}, op);
  store_halves(plan);
  return !plan.halves.empty();
}

}  // namespace

TEST_CASE("store_halves_rounds_to_nearest_even") {
  std::vector<float> values = ramp(300, 0.37f);
  values[0] = 2049;  // between 2048 and 2050
  values[1] = 2051;  // between 2050 and 2052
  values[2] = 65519;
  values[3] = -0.0f;
  Plan plan = plan_with({values});
  CHECK(store_halves(plan).empty());
  CHECK(plan.weights.empty());
  REQUIRE(plan.halves.size() == 600);
  std::vector<uint16_t> halves(300);
  std::memcpy(halves.data(), plan.halves.data(), 600);
  CHECK(f16_to_f32(halves[0]) == 2048);
  CHECK(f16_to_f32(halves[1]) == 2052);
  CHECK(f16_to_f32(halves[2]) == 65504);
  CHECK(halves[3] == 0x8000);
  for (size_t i = 4; i < 300; ++i) CHECK(std::fabs(f16_to_f32(halves[i]) - values[i]) <= std::fabs(values[i]) / 2048);
  for (const PlanProfile& profile : plan.profiles) {
    CHECK(profile.tensors[0].storage == Storage::kHalves);
    CHECK(profile.tensors[0].dtype == DType::kF32);
    CHECK(profile.tensors[0].offset == 0);
    CHECK(profile.tensors[0].bytes == 1200);
  }
}

TEST_CASE("store_halves_keeps_offsets_of_what_stays") {
  const std::vector<float> small = ramp(255, 1);
  Plan plan = plan_with({ramp(256, 1), small, ramp(257, 0.5f), ramp(256, 1)});
  CHECK(store_halves(plan).empty());
  const std::vector<PlanTensor>& tensors = plan.profiles[1].tensors;
  CHECK(tensors[0].storage == Storage::kHalves);
  CHECK(tensors[1].storage == Storage::kWeights);
  CHECK(tensors[1].offset == 0);
  CHECK(tensors[2].offset == 1024);
  CHECK(tensors[3].offset == 0);  // equal contents once
  CHECK(plan.halves.size() == 512 + 514);
  REQUIRE(plan.weights.size() == 1020);
  CHECK(std::memcmp(plan.weights.data(), small.data(), 1020) == 0);
}

TEST_CASE("store_halves_leaves_the_smallest") {
  // 256 of 48 * 256 elements are within the share; of two such constants, the first.
  std::vector<std::vector<float>> constants = {ramp(256, 1), ramp(256, 2), ramp(46 * 256, 0.01f)};
  Plan plan = plan_with(constants);
  CHECK(store_halves(plan).empty());
  CHECK(plan.profiles[0].tensors[0].storage == Storage::kWeights);
  CHECK(plan.profiles[0].tensors[1].storage == Storage::kHalves);
  CHECK(plan.weights.size() == 1024);
  constants[2].pop_back();
  plan = plan_with(constants);
  CHECK(store_halves(plan).empty());
  CHECK(plan.weights.empty());
}

TEST_CASE("store_halves_leaves_tables") {
  CHECK(is_stored_as_halves(ramp(256, 1)));
  CHECK(is_stored_as_halves(ramp(256, 1), "Gather"));
  CHECK_FALSE(is_stored_as_halves(ramp(256, 1), "Mul"));
  Plan plan = plan_with({ramp(256, 1)});
  plan.profiles[1].steps[0].macs = 0;  // one reader is enough
  CHECK(store_halves(plan).empty());
  CHECK(plan.halves.empty());
  CHECK(plan.weights.size() == 1024);
}

TEST_CASE("store_halves_leaves_numbers_that_halves_cannot_hold") {
  const auto with = [](float value, size_t count) {
    std::vector<float> values = ramp(256, 1);
    std::fill_n(values.begin(), count, value);
    return values;
  };
  CHECK(is_stored_as_halves(with(65519, 1)));
  CHECK_FALSE(is_stored_as_halves(with(65520, 1)));
  CHECK_FALSE(is_stored_as_halves(with(-1e30f, 1)));
  CHECK_FALSE(is_stored_as_halves(with(std::numeric_limits<float>::infinity(), 1)));
  CHECK_FALSE(is_stored_as_halves(with(std::numeric_limits<float>::quiet_NaN(), 1)));
  CHECK(is_stored_as_halves(with(1e-5f, 25)));
  CHECK_FALSE(is_stored_as_halves(with(1e-5f, 40)));
  CHECK(is_stored_as_halves(with(0x1p-20f, 40)));  // subnormal, but exact
  CHECK(is_stored_as_halves(with(0, 200)));
  Plan plan = plan_with({with(1e6f, 1), ramp(300, 1)});
  const std::vector<std::string> notices = store_halves(plan);
  REQUIRE(notices.size() == 1);
  CHECK(notices[0] ==
        "--weights fp16: 1 of the constants (1024 bytes) stay f32, because halves cannot hold their numbers");
}

}  // namespace kiln
