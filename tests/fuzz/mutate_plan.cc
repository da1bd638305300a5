#include "mutate_plan.h"

#include <cstdlib>
#include <cstring>

namespace kiln::fuzz {
namespace {

size_t below(std::mt19937& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

int32_t change_number(int32_t old, std::mt19937& random) {
  static constexpr int32_t kTelling[] = {0, 1,  -1,  2,     3,     4,       5,         7,
                                         8, 40, 255, 46341, 65536, 1 << 30, INT32_MAX, INT32_MIN};
  if (random() % 2 == 0) return kTelling[random() % std::size(kTelling)];
  return static_cast<int32_t>(static_cast<uint32_t>(old) + random() % 9 - 4u);
}

// One of the 32-bit words of [begin, begin + bytes).
void change_word(uint8_t* begin, size_t bytes, std::mt19937& random) {
  if (bytes < 4) return;
  uint8_t* at = begin + below(random, bytes / 4) * 4;
  int32_t number;
  std::memcpy(&number, at, sizeof(number));
  number = change_number(number, random);
  std::memcpy(at, &number, sizeof(number));
}

void change_shape(PlanTensor& tensor, std::mt19937& random) {
  Shape& shape = tensor.shape;
  switch (random() % 4) {
    case 0:
    case 1: {
      if (shape.rank == 0) return;
      int64_t& dim = shape.dims[below(random, static_cast<size_t>(shape.rank))];
      dim = std::abs(change_number(static_cast<int32_t>(dim), random) % 40);
      break;
    }
    case 2:
      if (shape.rank < kMaxRank) shape.push_back(static_cast<int64_t>(random() % 4));
      break;
    case 3:
      if (shape.rank > 0) --shape.rank;
      break;
  }
  contiguous_strides(shape, tensor.strides);
}

// Halves, or where the tensor lies in them.
void change_halves(Plan& plan, PlanTensor& tensor, std::mt19937& random) {
  if (random() % 2 == 0)
    change_word(plan.halves.data(), plan.halves.size(), random);
  else if (random() % 2 == 0)
    tensor.offset += random() % 128;
  else
    tensor.storage = Storage::kWeights;
}

void change_operands(PlanStep& step, size_t num_tensors, std::mt19937& random) {
  std::vector<int32_t>& operands = random() % 3 != 0 ? step.inputs : step.outputs;
  if (operands.empty()) return;
  switch (random() % 3) {
    case 0:
      operands[below(random, operands.size())] = static_cast<int32_t>(below(random, num_tensors + 1)) - 1;
      break;
    case 1:
      operands.pop_back();
      break;
    case 2:
      operands.push_back(operands[below(random, operands.size())]);
      break;
  }
}

void spread(PlanProfile& profile) {
  uint64_t end = 0;
  for (PlanTensor& tensor : profile.tensors) {
    if (tensor.storage != Storage::kArena) continue;
    uint64_t span = 1;
    for (int i = 0; i < tensor.shape.rank; ++i) {
      if (tensor.shape[i] > 0) span += static_cast<uint64_t>((tensor.shape[i] - 1) * tensor.strides[i]);
    }
    tensor.offset = end;
    end = (end + span * 8 + 127) / 64 * 64;
  }
  for (PlanStep& step : profile.steps) {
    step.scratch_offset = end;
    end = (end + step.scratch_bytes + 63) / 64 * 64;
  }
  profile.arena_bytes = end;
}

}  // namespace

void mutate_plan(Plan& plan, std::mt19937& random) {
  PlanProfile& profile = plan.profiles[0];
  if (profile.steps.empty() || profile.tensors.empty()) return;
  for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
    PlanStep& step = profile.steps[below(random, profile.steps.size())];
    PlanTensor& tensor = profile.tensors[below(random, profile.tensors.size())];
    switch (random() % 8) {
      case 0:
      case 1:
        change_word(step.params.data(), step.params.size(), random);
        break;
      case 2:
      case 3:
        change_shape(tensor, random);
        break;
      case 4:
        tensor.dtype = static_cast<DType>(1 + random() % (kNumDTypes - 1));
        break;
      case 5:
        change_operands(step, profile.tensors.size(), random);
        break;
      case 6:
        if (tensor.storage == Storage::kWeights && tensor.offset + tensor.bytes <= plan.weights.size()) {
          change_word(plan.weights.data() + tensor.offset, static_cast<size_t>(tensor.bytes), random);
        }
        if (tensor.storage == Storage::kHalves) change_halves(plan, tensor, random);
        break;
      case 7:
        if (random() % 2 == 0)
          step.scratch_bytes = random() % 2 == 0 ? 0 : step.scratch_bytes / 2;
        else if (tensor.shape.rank > 1)
          tensor.strides[tensor.shape.rank - 2] += random() % 5;
        break;
    }
  }
  if (random() % 2 == 0) spread(profile);
}

}  // namespace kiln::fuzz
