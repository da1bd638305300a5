// libFuzzer target: any bytes as an ONNX model, through the whole compiler. Whatever the bytes are, there
// must be an error that blames the model, or a bundle that loads; an internal error is a finding.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bundle/format.h"
#include "bundle/write.h"
#include "compile/shapes.h"
#include "onnx/import.h"
#include "onnx/sniff.h"
#include "passes/infer.h"
#include "passes/pipeline.h"
#include "plan/make_plan.h"
#include "runtime/session.h"

namespace {

// Bounds that keep an input's time short; they are on the work asked for, not on the forms.
constexpr kiln::FoldLimits kFoldLimits{16 << 10, 256 << 10};
constexpr size_t kMaxNodes = 64;
constexpr int64_t kMaxElements = 1 << 20;
constexpr uint64_t kMaxArenaBytes = 16 << 20;

void must_hold(bool holds, const char* what, const std::string& message) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, message.c_str());
  std::abort();
}

void check_blame(const kiln::Status& status, const char* stage) {
  must_hold(status.code() != kiln::Code::kInternal, stage, status.message());
}

void load(const kiln::Plan& plan) {
  if (plan.profiles[0].arena_bytes > kMaxArenaBytes) return;
  const std::vector<uint8_t> bundle = kiln::write_bundle(plan);
  void* memory = nullptr;
  if (posix_memalign(&memory, kiln::format::kAlignment, bundle.size()) != 0) return;
  std::memcpy(memory, bundle.data(), bundle.size());
  {
    const auto session =
        kiln::Session::load({static_cast<const uint8_t*>(memory), bundle.size()}, kiln::builtin_kernels());
    must_hold(session.ok(), "a compiled bundle does not load",
              session.status().node() + ": " + session.status().message());
  }
  std::free(memory);
}

void compile(kiln::ImportedModel& model) {
  const kiln::OpRegistry& ops = kiln::builtin_ops();
  if (model.graph.nodes.size() > kMaxNodes) return;
  if (model.problems.empty()) {
    const kiln::Status verified = kiln::verify_graph(model.graph, false);
    must_hold(verified.ok(), "import left a wrong graph", verified.message());
  }
  const kiln::ProfileShapes shapes = kiln::resolve_shapes(model, {});
  if (shapes.profiles.empty()) return;
  kiln::Graph graph = model.graph;
  for (kiln::ValueId id : graph.inputs) graph.value(id).shape = shapes.profiles[0].at(graph.value(id).name);

  std::vector<kiln::Problem> problems = model.problems;
  problems.insert(problems.end(), shapes.problems.begin(), shapes.problems.end());
  kiln::infer_and_fold(graph, ops, problems, kFoldLimits);
  for (const kiln::Problem& problem : problems) {
    must_hold(problem.code != kiln::Code::kInternal, "inference", problem.message);
  }
  if (!problems.empty()) return;
  for (const kiln::Pass& pass : kiln::builtin_passes()) {
    const kiln::Result<int> changes = pass.run(graph, ops);
    check_blame(changes.status(), pass.name);
    if (!changes.ok()) return;
    const kiln::Status verified = kiln::verify_graph(graph, true);
    must_hold(verified.ok(), pass.name, verified.message());
  }
  for (const kiln::Value& value : graph.values) {
    if (value.shape.num_elements() > kMaxElements) return;
  }
  const kiln::Result<kiln::Plan> plan = kiln::make_plan(graph, ops);
  check_blame(plan.status(), "plan");
  if (plan.ok()) load(plan.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  if (!kiln::looks_like_onnx(bytes)) {
    must_hold(!kiln::explain_not_onnx(bytes).ok(), "no explanation", "");
    return 0;
  }
  // External data is looked up in the model itself: any content will do.
  const std::vector<uint8_t> contents(data, data + size);
  const kiln::FileReader files = [&](const std::string& name) { return name == "data" ? &contents : nullptr; };
  kiln::Result<kiln::ImportedModel> model = kiln::import_onnx(bytes, files);
  check_blame(model.status(), "import");
  if (model.ok()) compile(*model);
  return 0;
}
