#include "plan/make_plan.h"

#include <doctest/doctest.h>

#include <random>

#include "aligned_bytes.h"
#include "bundle/write.h"
#include "compile/print_plan.h"
#include "plan/aliases.h"
#include "plan/merge_plans.h"
#include "runtime/session.h"
#include "soak.h"
#include "tiny_ops.h"

namespace kiln {
namespace {

using test::TinyGraph;

Plan plan_of(const Graph& graph) {
  Result<Plan> plan = make_plan(graph, test::tiny_op_registry());
  CHECK_MESSAGE(plan.ok(), plan.status().message());
  return std::move(plan).value();
}

const PlanTensor& tensor_named(const PlanProfile& profile, const std::string& name) {
  for (const PlanTensor& tensor : profile.tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return profile.tensors[0];
}

std::vector<Tensor> make_inputs(const Graph& graph, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs) {
    inputs.emplace_back(DType::kF32, graph.value(id).shape);
    for (int64_t i = 0; i < inputs.back().num_elements(); ++i) {
      inputs.back().as<float>()[i] = static_cast<float>(random() % 100);
    }
  }
  return inputs;
}

// Runs the plan (twice, to see that nothing depends on what a run leaves behind) and the graph's reference:
// equal bits.
void check_runs_like_reference(const Graph& graph, uint32_t seed) {
  const Plan plan = plan_of(graph);
  test::AlignedBytes bundle(write_bundle(plan));
  auto loaded = Session::load(bundle.span(), test::tiny_kernel_registry());
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message() << "\n" << print_plan(plan));
  Session& session = **loaded;
  for (uint32_t run = 0; run < 2; ++run) {
    const std::vector<Tensor> inputs = make_inputs(graph, seed * 2 + run);
    const auto expected = evaluate_graph(test::tiny_op_registry(), graph, inputs);
    REQUIRE(expected.ok());
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::copy_n(inputs[i].as<float>(), inputs[i].num_elements(), session.input(static_cast<int>(i)).as<float>());
    }
    session.run();
    // Writing the next inputs must leave the outputs alone.
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::fill_n(session.input(static_cast<int>(i)).as<float>(), inputs[i].num_elements(), -5.0f);
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const TensorRef out = session.output(static_cast<int>(i));
      CHECK(out.is_contiguous());
      const Tensor& want = expected.value()[i];
      const bool equal = std::equal(want.as<float>(), want.as<float>() + want.num_elements(), out.as<float>());
      CHECK_MESSAGE(equal, "output " << i << "\n" << print_plan(plan));
    }
  }
  CHECK(static_cast<double>(plan.profiles[0].arena_bytes) >= static_cast<double>(plan.profiles[0].peak_live_bytes));
}

TEST_CASE("plan_concat_pieces_lie_in_the_output") {
  TinyGraph g;
  const ValueId x = g.input({1, 2, 3, 4});
  const ValueId a = g.sum({x});
  const ValueId b = g.sum({x, x});
  const ValueId joined = g.concat({a, b}, 3, /*view=*/true);
  g.graph.outputs = {g.sum({joined})};
  const Plan plan = plan_of(g.graph);
  const PlanProfile& profile = plan.profiles[0];
  CHECK(profile.steps.size() == 3);
  const PlanTensor& whole = tensor_named(profile, g.graph.value(joined).name);
  const PlanTensor& second = tensor_named(profile, g.graph.value(b).name);
  CHECK(second.offset == whole.offset + 4 * 4);
  CHECK(second.strides[2] == 8);
  CHECK(second.strides[3] == 1);
  CHECK(second.bytes == (5 * 8 + 4) * 4);
  check_runs_like_reference(g.graph, 1);
}

TEST_CASE("plan_makes_views_by_itself_only_where_pieces_are_dense") {
  TinyGraph g;
  const ValueId x = g.input({1, 4, 6});
  const ValueId dense = g.concat({g.sum({x}), g.sum({x, x})}, 1, false);
  const ValueId sparse = g.concat({g.sum({x}), g.sum({x, x})}, 2, false);
  const auto halves = g.split(dense, 1, {5, 3}, false);
  const auto columns = g.split(sparse, 2, {7, 5}, false);
  g.graph.outputs = {halves[1], columns[0], g.slice(dense, 1, 2, 8, 1, false)};
  const Aliases aliases = find_aliases(g.graph);
  for (size_t n = 0; n < g.graph.nodes.size(); ++n) {
    const Node& node = g.graph.nodes[n];
    const bool is_dense = node.outputs[0] == dense || node.inputs[0] == dense;
    CHECK_MESSAGE(aliases.elided[n] == is_dense, node.name);
  }
  check_runs_like_reference(g.graph, 2);
}

TEST_CASE("plan_concat_falls_back_to_a_step_where_a_piece_cannot_move") {
  TinyGraph g;
  const ValueId x = g.input({1, 2, 4});
  const ValueId c = g.constant({1, 2, 4}, 3);
  const ValueId a = g.sum({x});
  const ValueId b = g.sum({a});
  const ValueId with_input = g.concat({x, a}, 2, true);
  const ValueId with_constant = g.concat({c, b}, 2, true);
  const ValueId twice = g.concat({b, b}, 2, true);
  const ValueId first = g.concat({a, b}, 2, true);   // loses a and b to…
  const ValueId second = g.concat({b, a}, 2, true);  // …the last one that asks
  g.graph.outputs = {with_input, with_constant, twice, first, second};
  const Aliases aliases = find_aliases(g.graph);
  CHECK(std::count(aliases.elided.begin(), aliases.elided.end(), true) == 1);
  CHECK(aliases.elided.back());
  check_runs_like_reference(g.graph, 3);
}

TEST_CASE("plan_reshape_costs_nothing_in_either_direction") {
  TinyGraph g;
  const ValueId x = g.input({1, 2, 3, 4});
  // Down: the reshaped value lies in what it is made from. Up: what is reshaped is made inside the Concat.
  const ValueId flat = g.reshape(g.sum({x}), {1, 24});
  const ValueId joined = g.concat({g.reshape(g.identity(g.sum({x, x})), {1, 24}), g.sum({flat})}, 1, false);
  g.graph.outputs = {joined};
  const Plan plan = plan_of(g.graph);
  CHECK(plan.profiles[0].steps.size() == 3);
  check_runs_like_reference(g.graph, 4);
}

TEST_CASE("plan_reshape_of_a_strided_piece_is_a_step") {
  TinyGraph g;
  const ValueId x = g.input({1, 1, 3, 4});
  const auto parts = g.split(g.sum({x}), 3, {1, 3}, true);
  g.graph.outputs = {g.sum({g.reshape(parts[1], {9})})};
  CHECK(plan_of(g.graph).profiles[0].steps.size() == 3);
  check_runs_like_reference(g.graph, 5);
}

TEST_CASE("plan_outputs_that_are_inputs_constants_or_duplicates") {
  TinyGraph g;
  const ValueId x = g.input({2, 3});
  g.input({5});  // used by nothing
  const ValueId c = g.constant({4}, 1);
  const ValueId y = g.sum({x});
  const ValueId reshaped_input = g.reshape(x, {6});
  const ValueId reshaped = g.reshape(y, {6});
  g.graph.outputs = {x, c, y, y, reshaped_input, reshaped, x};
  const Plan plan = plan_of(g.graph);
  const PlanProfile& profile = plan.profiles[0];
  CHECK(profile.inputs.size() == 2);
  REQUIRE(profile.outputs.size() == 7);
  CHECK(profile.outputs[0].name == g.graph.value(x).name);
  CHECK(profile.outputs[0].tensor != profile.inputs[0].tensor);
  CHECK(profile.outputs[0].tensor == profile.outputs[6].tensor);
  CHECK(profile.outputs[2].tensor == profile.outputs[3].tensor);
  for (const PlanIo& io : profile.outputs) {
    CHECK(profile.tensors[static_cast<size_t>(io.tensor)].storage == Storage::kArena);
  }
  check_runs_like_reference(g.graph, 6);
}

TEST_CASE("plan_slice_with_a_step_is_a_view_of_every_other_row") {
  TinyGraph g;
  const ValueId x = g.input({6, 4});
  const ValueId rows = g.slice(g.sum({x}), 0, 1, 6, 2, true);
  g.graph.outputs = {g.sum({rows})};
  const Plan plan = plan_of(g.graph);
  CHECK(plan.profiles[0].steps.size() == 2);
  const PlanTensor& view = tensor_named(plan.profiles[0], g.graph.value(rows).name);
  CHECK(view.strides[0] == 8);
  check_runs_like_reference(g.graph, 7);
}

TEST_CASE("plan_packed_weights_are_stored_once_and_aligned") {
  TinyGraph g;
  const ValueId x = g.input({5});
  const ValueId weight = g.constant({5}, 10);
  const ValueId same_bytes = g.constant({5}, 10);
  const ValueId other = g.constant({5}, 20);
  ValueId y = x;
  for (ValueId w : {weight, same_bytes, other}) {
    Node node;
    node.op = "TinyPacked";
    node.name = "packed" + std::to_string(g.graph.nodes.size());
    node.inputs = {y, w};
    node.outputs = {g.graph.add_value(g.graph.unique_name("p"), DType::kF32, Shape{5})};
    g.graph.nodes.push_back(node);
    y = node.outputs[0];
  }
  g.graph.outputs = {y};
  const Plan plan = plan_of(g.graph);
  CHECK(plan.weights.size() == 64 + 20);
  const PlanStep& step = plan.profiles[0].steps[0];
  CHECK(step.scratch_bytes == 100);
  CHECK(step.scratch_offset % 64 == 0);
  CHECK(step.macs == 7);
  check_runs_like_reference(g.graph, 8);
}

TEST_CASE("plan_profiles_share_weights") {
  std::vector<Plan> plans;
  for (int64_t batch : {1, 4, 2}) {
    TinyGraph g;
    const ValueId x = g.input({batch, 3});
    const ValueId own = g.constant({batch, 3}, static_cast<float>(batch));
    const ValueId shared = g.constant({7}, 5);
    g.graph.outputs = {g.sum({x, own}), shared};
    plans.push_back(plan_of(g.graph));
  }
  const auto merged = merge_plans(plans);
  REQUIRE(merged.ok());
  CHECK(merged.value().profiles.size() == 3);
  CHECK(merged.value().weights.size() == 64 + 64 + 64 + 24);  // 12, 28, 48 and 24 bytes, each at a 64-byte boundary

  test::AlignedBytes bundle(write_bundle(merged.value()));
  auto loaded = Session::load(bundle.span(), test::tiny_kernel_registry());
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
  Session& session = **loaded;
  for (int p : {2, 0, 1}) {
    REQUIRE(session.select_profile(p).ok());
    const int64_t batch = session.inputs(p)[0].shape[0];
    std::fill_n(session.input(0).as<float>(), batch * 3, 100.0f);
    session.run();
    for (int64_t i = 0; i < batch * 3; ++i) {
      CHECK(session.output(0).as<float>()[i] == 101.0f + static_cast<float>(batch + i));
    }
    CHECK(session.output(1).as<float>()[6] == 11.0f);
  }

  CHECK(!merge_plans({}).ok());
  TinyGraph other;
  other.graph.outputs = {other.sum({other.input({1}), other.input({1})})};
  CHECK(merge_plans({plans[0], plan_of(other.graph)}).status().code() == Code::kInvalidArgument);
}

TEST_CASE("plan_refuses_what_does_not_fit") {
  TinyGraph g;
  const ValueId x = g.input({1 << 16, 1 << 14});
  g.graph.outputs = {g.sum({x})};
  const auto plan = make_plan(g.graph, test::tiny_op_registry());
  CHECK(plan.status().code() == Code::kUnsupported);
  CHECK(plan.status().message().find("2^31") != std::string::npos);

  TinyGraph wide;
  std::vector<ValueId> outputs;
  const ValueId small = wide.input({1 << 14, 1 << 14});
  for (int i = 0; i < 3; ++i) outputs.push_back(wide.sum({small}));
  wide.graph.outputs = outputs;
  CHECK(make_plan(wide.graph, test::tiny_op_registry()).status().message().find("2048 MB") != std::string::npos);
}

// Random graphs over all tiny operators with views wherever a pass could set them: run like the reference,
// and no two runs of the planner differ.
TEST_CASE("plan_random_graphs_run_like_the_reference" * doctest::test_suite("random")) {
  int elided = 0;
  for (uint32_t seed = 0; seed < test::soak_cases(300); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const int64_t batch = 1 + static_cast<int64_t>(below(2));
    TinyGraph g;
    std::vector<ValueId> pool = {g.input({batch, 2, 3, 4}), g.input({batch, 2, 3, 2}), g.constant({batch, 2, 3, 4}, 1)};
    const size_t num_nodes = 3 + below(20);
    for (size_t n = 0; n < num_nodes; ++n) {
      const ValueId x = pool[below(pool.size())];
      const Shape shape = g.graph.value(x).shape;
      const auto pick_like = [&](int free_axis) {
        std::vector<ValueId> found;
        for (ValueId id : pool) {
          Shape other = g.graph.value(id).shape;
          if (other.rank == shape.rank && free_axis >= 0) other[free_axis] = shape[free_axis];
          if (other == shape) found.push_back(id);
        }
        return found[below(found.size())];
      };
      const bool view = below(2) == 0;
      const int last = shape.rank - 1;
      switch (below(7)) {
        case 0:
          pool.push_back(g.sum({x}));
          break;
        case 1:
          pool.push_back(g.sum({x, pick_like(-1), pick_like(-1)}));
          break;
        case 2:
          pool.push_back(g.identity(x));
          break;
        case 3: {
          if (shape.rank == 4)
            pool.push_back(g.reshape(x, {shape[0], shape[1] * shape[2], shape[3]}));
          else if (shape.rank == 3)
            pool.push_back(g.reshape(x, {shape[0], 1, shape[1], shape[2]}));
          break;
        }
        case 4: {
          const bool along_channels = below(3) > 0;
          const int axis = along_channels ? last : static_cast<int>(below(static_cast<size_t>(shape.rank)));
          if (shape[axis] > 40) break;
          // Fresh values make a view possible; values out of the pool often do not.
          const ValueId a = below(2) ? g.sum({x}) : x;
          const ValueId b = below(2) ? g.sum({pick_like(-1)}) : pick_like(axis);
          pool.push_back(g.concat({a, b}, axis, view && axis == last));
          break;
        }
        case 5: {
          if (shape[last] < 2) break;
          const int64_t at = 1 + static_cast<int64_t>(below(static_cast<size_t>(shape[last] - 1)));
          for (ValueId id : g.split(x, last, {at, shape[last] - at}, view)) pool.push_back(id);
          break;
        }
        case 6: {
          const int axis = below(2) ? last : 0;
          const int64_t start = static_cast<int64_t>(below(static_cast<size_t>(shape[axis])));
          const int64_t step = axis == last ? 1 : 1 + static_cast<int64_t>(below(2));
          pool.push_back(g.slice(x, axis, start, shape[axis], step, view && axis == last));
          break;
        }
      }
    }
    g.graph.outputs = {pool.back()};
    for (int i = 0; i < 3; ++i) g.graph.outputs.push_back(pool[below(pool.size())]);
    check_runs_like_reference(g.graph, seed);
    CHECK(write_bundle(plan_of(g.graph)) == write_bundle(plan_of(g.graph)));
    const Aliases aliases = find_aliases(g.graph);
    elided += static_cast<int>(std::count(aliases.elided.begin(), aliases.elided.end(), true));
  }
  CHECK(elided > 500);  // the graphs do contain views
}

TEST_CASE("plan_long_chain_of_reshapes_stays_shallow") {
  TinyGraph g;
  ValueId x = g.sum({g.input({4, 6})});
  for (int i = 0; i < 2000; ++i) x = g.reshape(x, i % 2 ? Shape{4, 6} : Shape{24});
  g.graph.outputs = {x};
  const Plan plan = plan_of(g.graph);
  CHECK(plan.profiles[0].steps.size() < 100);
  check_runs_like_reference(g.graph, 9);
}

}  // namespace
}  // namespace kiln
