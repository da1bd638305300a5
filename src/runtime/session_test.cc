#include "runtime/session.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "aligned_bytes.h"
#include "bundle/write.h"
#include "plan/make_plan.h"
#include "tiny_ops.h"

namespace kiln {
namespace {

using test::TinyGraph;

Plan two_step_plan() {
  TinyGraph g;
  const ValueId x = g.input({2, 3});
  g.graph.outputs = {g.sum({g.sum({x, g.constant({2, 3}, 10)}), x})};
  Plan plan = make_plan(g.graph, test::tiny_op_registry()).value();
  plan.metadata = {{"labels", "a\nb"}, {"task", "classify"}};
  return plan;
}

Status load_status(const Plan& plan) {
  test::AlignedBytes bundle(write_bundle(plan));
  return Session::load(bundle.span(), test::tiny_kernel_registry()).status();
}

void check_error(const Status& status, Code code, const char* part) {
  CHECK_MESSAGE(status.code() == code, code_name(status.code()) << ": " << status.message());
  CHECK_MESSAGE(status.message().find(part) != std::string::npos, status.message());
}

TEST_CASE("session_runs_and_tells_about_itself") {
  test::AlignedBytes bundle(write_bundle(two_step_plan()));
  auto loaded = Session::load(bundle.span(), test::tiny_kernel_registry());
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
  Session& session = **loaded;
  CHECK(session.num_profiles() == 1);
  CHECK(session.profile() == 0);
  CHECK(session.inputs(0)[0].shape == std::vector<int64_t>{2, 3});
  CHECK(session.outputs(0)[0].dtype == DType::kF32);
  CHECK(session.num_steps() == 2);
  CHECK(std::string(session.step(1).kernel) == "tiny_sum");
  CHECK(std::string(session.step(1).op) == "TinySum");
  CHECK(std::string(session.step(1).name) == "TinySum_1");
  CHECK(session.num_metadata() == 2);
  CHECK(std::string(session.metadata("labels")) == "a\nb");
  CHECK(std::string(session.metadata_key(1)) == "task");
  CHECK(session.metadata("missing") == nullptr);
  CHECK(session.memory().weights_bytes == 24);
  CHECK(session.memory().arena_bytes >= session.memory().peak_live_bytes);
  CHECK(session.memory().peak_live_bytes == 72);
  CHECK(session.select_profile(1).code() == Code::kInvalidArgument);
  CHECK(session.select_profile(-1).code() == Code::kInvalidArgument);
  CHECK(reinterpret_cast<uintptr_t>(session.input(0).data) % 64 == 0);

  CHECK(session.output(0).as<float>()[0] == 0);  // fresh memory holds nothing of anybody's
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 6; ++i) session.input(0).as<float>()[i] = static_cast<float>(i);
    session.run();
    for (int i = 0; i < 6; ++i) CHECK(session.output(0).as<float>()[i] == static_cast<float>(3 * i + 12));
  }
}

TEST_CASE("session_runs_step_by_step") {
  test::AlignedBytes bundle(write_bundle(two_step_plan()));
  auto loaded = Session::load(bundle.span(), test::tiny_kernel_registry());
  REQUIRE(loaded.ok());
  Session& session = **loaded;
  for (int i = 0; i < 6; ++i) session.input(0).as<float>()[i] = 1;
  session.run_steps(0, 0);
  session.run_steps(0, 1);
  session.run_steps(1, 2);
  CHECK(session.output(0).as<float>()[5] == 1 + 1 + 1 + 15 + 1 - 0);
}

// The constant moves to halves, behind 40 others, so that it begins in the middle of them.
Plan halved_plan() {
  Plan plan = two_step_plan();
  std::vector<uint16_t> halves(40, 0x7e00);
  for (PlanTensor& tensor : plan.profiles[0].tensors) {
    if (tensor.storage != Storage::kWeights) continue;
    tensor.storage = Storage::kHalves;
    tensor.offset = 40 * sizeof(float);
  }
  for (int i = 0; i < 6; ++i) halves.push_back(f32_to_f16(static_cast<float>(10 + i) / 4));
  plan.weights.clear();
  plan.halves.resize(halves.size() * 2);
  std::memcpy(plan.halves.data(), halves.data(), plan.halves.size());
  return plan;
}

TEST_CASE("session_expands_halves_once_for_all_profiles") {
  Plan plan = halved_plan();
  for (size_t num_profiles : {size_t{1}, size_t{2}}) {
    plan.profiles.resize(num_profiles, plan.profiles[0]);
    test::AlignedBytes bundle(write_bundle(plan));
    auto loaded = Session::load(bundle.span(), test::tiny_kernel_registry());
    REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
    Session& session = **loaded;
    CHECK(session.memory().weights_bytes == 92);
    CHECK(session.memory().prepared_bytes == 184);
    for (size_t p = 0; p < num_profiles; ++p) {
      REQUIRE(session.select_profile(static_cast<int>(p)).ok());
      for (int i = 0; i < 6; ++i) session.input(0).as<float>()[i] = static_cast<float>(i);
      session.run();
      for (int i = 0; i < 6; ++i) {
        CHECK(session.output(0).as<float>()[i] == static_cast<float>(2 * i + 2) + static_cast<float>(10 + i) / 4);
      }
    }
  }
}

TEST_CASE("session_checks_steps_that_read_halves") {
  Plan plan = halved_plan();
  CHECK(load_status(plan).ok());
  PlanTensor& constant = plan.profiles[0].tensors[1];
  REQUIRE(constant.storage == Storage::kHalves);
  constant.shape = Shape{2, 2};
  constant.strides[0] = 2;
  check_error(load_status(plan), Code::kCorrupt, "sizes differ");
}

TEST_CASE("session_refuses_a_kernel_that_is_not_there") {
  Plan plan = two_step_plan();
  plan.profiles[0].steps[1].kernel = "sum_f32_of_tomorrow";
  check_error(load_status(plan), Code::kVersion, "newer runtime");
  check_error(load_status(plan), Code::kVersion, "'sum_f32_of_tomorrow'");
}

TEST_CASE("session_checks_every_step_of_every_profile") {
  Plan plan = two_step_plan();
  plan.profiles.push_back(plan.profiles[0]);
  CHECK(load_status(plan).ok());
  PlanTensor& constant = plan.profiles[1].tensors[1];
  REQUIRE(constant.storage == Storage::kWeights);
  constant.shape = Shape{2, 2};
  constant.strides[0] = 2;
  const Status status = load_status(plan);
  check_error(status, Code::kCorrupt, "TinySum 'TinySum_0' (kernel tiny_sum): sizes differ");
  CHECK(status.node() == "TinySum_0");
}

TEST_CASE("session_gives_strides_only_to_kernels_that_take_them") {
  for (const char* op : {"TinySum", "TinyDenseSum"}) {
    CAPTURE(op);
    TinyGraph in;
    in.graph.outputs = {in.sum({in.split(in.sum({in.input({2, 4})}), 1, {1, 3}, true)[1]}, op)};
    TinyGraph out;
    const ValueId x = out.input({2, 4});
    out.graph.outputs = {out.concat({out.sum({x}, op), out.sum({x}, op)}, 1, true)};
    const Plan in_plan = make_plan(in.graph, test::tiny_op_registry()).value();
    const Plan out_plan = make_plan(out.graph, test::tiny_op_registry()).value();
    if (std::string(op) == "TinySum") {
      CHECK(load_status(in_plan).ok());
      CHECK(load_status(out_plan).ok());
    } else {
      check_error(load_status(in_plan), Code::kCorrupt, "input 0 is not dense");
      check_error(load_status(out_plan), Code::kCorrupt, "output 0 is not dense");
    }
  }
}

TEST_CASE("session_params_are_aligned_whatever_precedes_them") {
  static uintptr_t seen_misalignment;
  static constexpr KernelDef kKernels[] = {
      {"look", [](const KernelArgs& args) { seen_misalignment |= reinterpret_cast<uintptr_t>(args.params) % 8; },
       [](const KernelArgs& args) { return check_operands(args, 0, 1, 1); }},
  };
  KernelRegistry registry;
  registry.add(kKernels);
  Plan plan = two_step_plan();
  plan.profiles[0].steps[0].params = {1, 2, 3};
  plan.profiles[0].steps[1].params = {4, 5, 6, 7, 8};
  for (PlanStep& step : plan.profiles[0].steps) {
    step.kernel = "look";
    step.inputs.clear();
  }
  test::AlignedBytes bundle(write_bundle(plan));
  auto loaded = Session::load(bundle.span(), registry);
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
  seen_misalignment = 0;
  loaded.value()->run();
  CHECK(seen_misalignment == 0);
}

TEST_CASE("session_with_a_built_in_kernel") {
  Graph graph;
  const ValueId x = graph.add_value("x", DType::kF32, Shape{2, 3});
  const ValueId y = graph.add_value("y", DType::kF32, Shape{2, 3});
  Node node;
  node.op = "Softmax";
  node.opset = 13;
  node.name = "probabilities";
  node.inputs = {x};
  node.outputs = {y};
  graph.nodes = {node};
  graph.inputs = {x};
  graph.outputs = {y, x};
  const auto plan = make_plan(graph, builtin_ops());
  REQUIRE_MESSAGE(plan.ok(), plan.status().message());
  test::AlignedBytes bundle(write_bundle(plan.value()));
  auto loaded = Session::load(bundle.span(), builtin_kernels());
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
  if (!loaded.ok()) return;
  Session& session = **loaded;
  const float values[6] = {0, 1, 2, -1, -1, 3};
  std::copy_n(values, 6, session.input(0).as<float>());
  session.run();
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += std::exp(values[row * 3 + i]);
    for (int i = 0; i < 3; ++i) {
      CHECK(session.output(0).as<float>()[row * 3 + i] == doctest::Approx(std::exp(values[row * 3 + i]) / sum));
    }
  }
  CHECK(std::equal(values, values + 6, session.output(1).as<float>()));
}

}  // namespace
}  // namespace kiln
