// The compiler extended from outside: a front end, an operator with its kernel and a pass, each a table entry, no core
// file touched. The model then compiles and runs.
#include <doctest/doctest.h>

#include <cstring>

#include "aligned_bytes.h"
#include "graph/text.h"
#include "runtime/session.h"
#include "text_front_end.h"

namespace kiln::test {
namespace {

// com.example::Twice: y = 2 * x, f32 of any shape.
void run_twice(const KernelArgs& args) {
  const float* x = args.in[0].as<float>();
  float* y = args.out[0].as<float>();
  for (int64_t i = 0; i < args.out[0].num_elements(); ++i) y[i] = 2 * x[i];
}

Status check_twice(const KernelArgs& args) {
  KILN_TRY(check_operands(args, 1, 1, 1));
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != DType::kF32 || y.dtype != DType::kF32 || x.num_elements() != y.num_elements()) {
    return {Code::kCorrupt, "twice_f32 takes f32 tensors of one size"};
  }
  return {};
}

void infer_twice(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, 1) || !out.check_dtype(0, {DType::kF32})) return;
  out.set_output(0, DType::kF32, node.input_shape(0));
}

constexpr OpDef kOps[] = {
    {"Twice", "com.example", 1, "y = 2 * x; f32", infer_twice, nullptr, run_twice, "twice_f32", nullptr, true}};
constexpr KernelDef kKernels[] = {{"twice_f32", run_twice, check_twice}};

// x + x becomes Twice(x).
Result<int> find_doubling(Graph& graph, const OpRegistry&) {
  int changes = 0;
  for (Node& node : graph.nodes) {
    if (node.op != "Add" || !node.domain.empty() || node.inputs.size() != 2 || node.inputs[0] != node.inputs[1])
      continue;
    node.op = "Twice";
    node.domain = "com.example";
    node.opset = 1;
    node.inputs.pop_back();
    ++changes;
  }
  return changes;
}

CompilerTables extended_tables() {
  CompilerTables tables = tables_with_text();
  tables.ops.add(kOps);
  tables.passes.insert(tables.passes.begin(), {"find_doubling", find_doubling});
  return tables;
}

constexpr const char* kModel = R"(graph "outside" opset 13
input %x: f32[2, 3]
%a = com.example::Twice@1(%x) 'asked for'
%b = Add(%a, %a) 'found by the pass'
%y = Sqrt(%b) 'built in'
output %y
)";

std::span<const uint8_t> bytes_of(const char* text) {
  return {reinterpret_cast<const uint8_t*>(text), std::strlen(text)};
}

}  // namespace

TEST_CASE("a_front_end_an_operator_and_a_pass_from_outside_compile_and_run") {
  CompileResult compiled;
  CompileOptions options;
  options.dump_stage = "find_doubling";
  const Status status = compile_model(bytes_of(kModel), nullptr, extended_tables(), options, compiled);
  REQUIRE_MESSAGE(status.ok(), status.message());
  CHECK(compiled.dump.find("com.example::Twice@1(%a)") != std::string::npos);
  REQUIRE(compiled.plan.profiles.size() == 1);
  REQUIRE(compiled.plan.profiles[0].steps.size() == 3);
  CHECK(compiled.plan.profiles[0].steps[0].kernel == "twice_f32");
  CHECK(compiled.plan.profiles[0].steps[1].kernel == "twice_f32");

  KernelRegistry kernels = builtin_kernels();
  kernels.add(kKernels);
  AlignedBytes bundle(compiled.bundle);
  auto session = Session::load(bundle.span(), kernels);
  REQUIRE_MESSAGE(session.ok(), session.status().message());
  float* x = (*session)->input(0).as<float>();
  for (int i = 0; i < 6; ++i) x[i] = static_cast<float>(i * i);
  (*session)->run();
  const float* y = (*session)->output(0).as<float>();
  for (int i = 0; i < 6; ++i) CHECK(y[i] == doctest::Approx(2.0 * i));
}

TEST_CASE("without_the_kernel_a_bundle_that_needs_it_is_refused_by_name") {
  CompileResult compiled;
  REQUIRE(compile_model(bytes_of(kModel), nullptr, extended_tables(), {}, compiled).ok());
  AlignedBytes bundle(compiled.bundle);
  const auto session = Session::load(bundle.span(), builtin_kernels());
  REQUIRE(!session.ok());
  CHECK_MESSAGE(session.status().message().find("twice_f32") != std::string::npos, session.status().message());
}

TEST_CASE("without_the_extensions_the_model_is_refused") {
  CompileResult compiled;
  const Status no_front_end = compile_model(bytes_of(kModel), nullptr, builtin_tables(), {}, compiled);
  CHECK(no_front_end.code() == Code::kNotAModel);
  const Status no_operator = compile_model(bytes_of(kModel), nullptr, tables_with_text(), {}, compiled);
  CHECK(no_operator.code() == Code::kUnknownOperator);
  REQUIRE(compiled.problems.size() == 1);
  CHECK(compiled.problems[0].node == "asked for");
  CHECK(compiled.problems[0].op == "com.example.Twice");
}

}  // namespace kiln::test
