#include "plan/merge_plans.h"

#include "plan/weights.h"

namespace kiln {
namespace {

Status check_same_ios(const PlanProfile& a, const std::vector<PlanIo>& a_ios, const PlanProfile& b,
                      const std::vector<PlanIo>& b_ios, const char* what) {
  if (a_ios.size() != b_ios.size())
    return {Code::kInvalidArgument, strf("profiles have different numbers of %ss", what)};
  for (size_t i = 0; i < a_ios.size(); ++i) {
    const DType dtype_a = a.tensors[static_cast<size_t>(a_ios[i].tensor)].dtype;
    const DType dtype_b = b.tensors[static_cast<size_t>(b_ios[i].tensor)].dtype;
    if (a_ios[i].name != b_ios[i].name || dtype_a != dtype_b) {
      return {Code::kInvalidArgument,
              strf("%s %zu is '%s' (%s) in one profile, '%s' (%s) in another", what, i, a_ios[i].name.c_str(),
                   dtype_name(dtype_a), b_ios[i].name.c_str(), dtype_name(dtype_b))};
    }
  }
  return {};
}

}  // namespace

Result<Plan> merge_plans(std::vector<Plan> plans) {
  if (plans.empty()) return Status(Code::kInvalidArgument, "no profile to compile");
  if (plans.size() == 1) return std::move(plans[0]);
  Plan merged;
  merged.metadata = plans[0].metadata;
  WeightsPool weights(plans[0].weights.size());
  for (const Plan& plan : plans) {
    for (PlanProfile profile : plan.profiles) {
      for (PlanTensor& tensor : profile.tensors) {
        if (tensor.storage != Storage::kWeights) continue;
        tensor.offset = weights.add(plan.weights.data() + tensor.offset, static_cast<size_t>(tensor.bytes));
      }
      merged.profiles.push_back(std::move(profile));
      const PlanProfile& first = merged.profiles.front();
      const PlanProfile& last = merged.profiles.back();
      KILN_TRY(check_same_ios(first, first.inputs, last, last.inputs, "input"));
      KILN_TRY(check_same_ios(first, first.outputs, last, last.outputs, "output"));
    }
  }
  merged.weights = weights.take();
  return merged;
}

}  // namespace kiln
