// libFuzzer target: any bytes as a bundle. What loads is run too, so that every kernel's check is under fire:
// a check that lets hostile parameters through shows as a report of a sanitizer (the session guards each
// step's operands, see runtime/memory_guard.h) or as a timeout.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bundle/format.h"
#include "bundle/read.h"
#include "bundle/write.h"
#include "mutate_plan.h"
#include "runtime/session.h"

namespace {

// Mutations should reach what lies behind the header: size and checksum are made to fit.
void fix_header(std::span<uint8_t> bytes) {
  kiln::format::Header header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.file_bytes = bytes.size();
  header.checksum = kiln::format::checksum(bytes.subspan(kiln::format::kChecksumBegin));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

// A bound on the work of one step that honest kernels keep to: every output element looks at every input
// element.
double work_of(const kiln::Plan& plan, size_t step_index) {
  const kiln::PlanProfile& profile = plan.profiles[0];
  const kiln::PlanStep& step = profile.steps[step_index];
  double most_read = 1, written = 0;
  for (int32_t index : step.inputs) {
    if (index < 0) continue;
    const kiln::Shape& shape = profile.tensors[static_cast<size_t>(index)].shape;
    most_read = std::max(most_read, static_cast<double>(shape.num_elements()));
  }
  for (int32_t index : step.outputs) {
    if (index < 0) continue;
    written += static_cast<double>(profile.tensors[static_cast<size_t>(index)].shape.num_elements());
  }
  return most_read * written;
}

void run_bounded(std::span<const uint8_t> bundle, const kiln::Plan& plan) {
  constexpr int kMaxSteps = 32;
  constexpr double kMaxWork = 3e6;
  auto loaded = kiln::Session::load(bundle, kiln::builtin_kernels());
  if (!loaded.ok()) return;
  kiln::Session& session = **loaded;
  for (size_t i = 0; i < session.inputs(0).size(); ++i) {
    const kiln::TensorRef input = session.input(static_cast<int>(i));
    auto* to = static_cast<uint8_t*>(input.data);
    const uint64_t bytes = kiln::span_bytes(input);
    for (uint64_t at = 0; at < bytes; at += bundle.size()) {
      std::memcpy(to + at, bundle.data(), std::min<uint64_t>(bytes - at, bundle.size()));
    }
  }
  for (int step = 0; step < std::min(session.num_steps(), kMaxSteps); ++step) {
    if (work_of(plan, static_cast<size_t>(step)) <= kMaxWork) session.run_steps(step, step + 1);
  }
}

struct FreeBytes {
  void operator()(uint8_t* bytes) const { std::free(bytes); }
};
using Bytes = std::unique_ptr<uint8_t, FreeBytes>;

// A copy that ends where its block ends, at the boundary that a bundle wants, with a fitting header.
Bytes copy_bundle(const uint8_t* data, size_t size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kiln::format::kAlignment, std::max<size_t>(size, 1)) != 0) return nullptr;
  if (size > 0) std::memcpy(memory, data, size);
  fix_header({static_cast<uint8_t*>(memory), size});
  return Bytes(static_cast<uint8_t*>(memory));
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Half of the mutations are of the bytes, half of the plan that they hold.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937 random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const Bytes copy = copy_bundle(data, size);
  if (copy == nullptr) return LLVMFuzzerMutate(data, size, max_size);
  const auto bundle = kiln::read_bundle({copy.get(), size});
  if (!bundle.ok()) return LLVMFuzzerMutate(data, size, max_size);
  kiln::Plan plan = kiln::unpack_bundle(bundle.value());
  kiln::fuzz::mutate_plan(plan, random);
  const std::vector<uint8_t> mutated = kiln::write_bundle(plan);
  if (mutated.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, mutated.data(), mutated.size());
  return mutated.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMaxArenaBytes = 4 << 20;
  const Bytes copy = copy_bundle(data, size);
  if (copy == nullptr) return 0;
  const std::span<const uint8_t> bytes(copy.get(), size);
  const auto bundle = kiln::read_bundle(bytes);
  if (!bundle.ok()) return 0;
  const kiln::Plan plan = kiln::unpack_bundle(bundle.value());
  for (const kiln::PlanProfile& profile : plan.profiles) {
    if (profile.arena_bytes > kMaxArenaBytes) return 0;
  }
  run_bounded(bytes, plan);
  return 0;
}
