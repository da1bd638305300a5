#include "compile/compile.h"

#include <algorithm>

#include "base/sha256.h"
#include "bundle/write.h"
#include "compile/io_layout.h"
#include "compile/json.h"
#include "compile/preprocess_presets.h"
#include "compile/print_plan.h"
#include "compile/shapes.h"
#include "compile/source_metadata.h"
#include "compile/version.h"
#include "graph/text.h"
#include "onnx/import.h"
#include "onnx/sniff.h"
#include "passes/batch_axis.h"
#include "passes/infer.h"
#include "passes/pipeline.h"
#include "plan/make_plan.h"
#include "plan/merge_plans.h"
#include "quant/quantize.h"

namespace kiln {
namespace {

// One compilation: what the stages below share.
struct Compilation {
  const CompilerTables& tables;
  const CompileOptions& options;
  CompileResult& result;

  // Keeps the graph as text if the user asked for this stage, of the first profile.
  void dump(const char* stage, const Graph& graph) {
    if (!result.dump.empty() || options.dump_stage != stage) return;
    result.dump = print_graph(graph);
    result.graph = graph;
  }

  Status fail(std::vector<Problem> problems) {
    const Problem first = problems[0];
    const size_t count = problems.size();
    result.problems = std::move(problems);
    if (count == 1) return {first.code, first.message, first.node};
    return {first.code, strf("%zu problems, the first: ", count) + first.message, first.node};
  }
};

Result<ImportedModel> import_model(std::span<const uint8_t> bytes, const FileReader& files,
                                   const CompilerTables& tables) {
  for (const FrontEnd& front_end : tables.front_ends) {
    if (front_end.accepts(bytes)) return front_end.import(bytes, files);
  }
  return explain_not_onnx(bytes);
}

// Graph inputs that --bind names become constants.
Status bind_inputs(ImportedModel& model, const std::map<std::string, Tensor>& bind) {
  Graph& graph = model.graph;
  for (const auto& bound : bind) {
    const std::string& name = bound.first;
    const Tensor& tensor = bound.second;
    const auto is_named = [&](ValueId id) { return graph.value(id).name == name; };
    const auto found = std::find_if(graph.inputs.begin(), graph.inputs.end(), is_named);
    if (found == graph.inputs.end()) {
      std::string names;
      for (ValueId id : graph.inputs) names += (names.empty() ? "'" : ", '") + graph.value(id).name + "'";
      return {Code::kInvalidArgument, "--bind " + name + ": no input has this name; inputs: " + names};
    }
    Value& value = graph.value(*found);
    bool fits = value.dtype == tensor.dtype();
    if (model.dim_names.count(name)) {
      fits = fits && value.shape.rank == tensor.shape().rank;
      for (int i = 0; fits && i < value.shape.rank; ++i)
        fits = value.shape[i] < 0 || value.shape[i] == tensor.shape()[i];
    }
    if (!fits) {
      return {Code::kShape, "--bind " + name + ": the file holds " + print_type(tensor.dtype(), tensor.shape()) +
                                ", but the input is " + print_type(value.dtype, value.shape)};
    }
    value.shape = tensor.shape();
    value.constant = std::make_shared<const Tensor>(tensor);
    graph.inputs.erase(found);
  }
  return {};
}

Status run_passes(Graph& graph, Compilation& job) {
  for (const Pass& pass : job.tables.passes) {
    const Result<int> changes = pass.run(graph, job.tables.ops);
    if (!changes.ok()) {
      return {changes.status().code(), std::string("pass ") + pass.name + ": " + changes.status().message(),
              changes.status().node()};
    }
    const Status verified = verify_graph(graph, true);
    if (!verified.ok()) {
      return {Code::kInternal, std::string("pass ") + pass.name + " left a wrong graph: " + verified.message(),
              verified.node()};
    }
    job.dump(pass.name, graph);
  }
  return {};
}

void set_edge(const IoEdge& edge, PlanIo& io) {
  io.name = edge.name;
  io.layout = edge.layout;
}

bool has_free_batch(const ImportedModel& model, const Value& input) {
  return model.dim_names.count(input.name) > 0 && input.shape.rank > 0 && input.shape[0] < 0;
}

// Inputs with a free batch that this profile fixes at the same number for all. None where that is not so.
std::vector<ValueId> batch_inputs(const ImportedModel& model, const InputShapes& shapes) {
  std::vector<ValueId> batched;
  int64_t rows = -1;
  for (ValueId id : model.graph.inputs) {
    const Value& value = model.graph.value(id);
    if (!has_free_batch(model, value)) continue;
    const int64_t given = shapes.at(value.name)[0];
    if (rows >= 0 && given != rows) return {};
    rows = given;
    batched.push_back(id);
  }
  return batched;
}

// Marks what may be padded, if rows are independent in every profile that has several.
void mark_batches(const ImportedModel& model, const std::vector<bool>& independent, Plan& plan) {
  std::vector<bool> is_batched;
  for (ValueId id : model.graph.inputs) is_batched.push_back(has_free_batch(model, model.graph.value(id)));
  const auto rows = [](const PlanProfile& profile, const PlanIo& io) {
    return profile.tensors[static_cast<size_t>(io.tensor)].shape[0];
  };
  const size_t first = static_cast<size_t>(std::find(is_batched.begin(), is_batched.end(), true) - is_batched.begin());
  if (first == is_batched.size()) return;
  bool any = false;
  for (size_t i = 0; i < plan.profiles.size(); ++i) {
    const PlanProfile& profile = plan.profiles[i];
    const int64_t batch = rows(profile, profile.inputs[first]);
    if (batch > 1 && !independent[i]) return;
    any = any || batch > 1;
    for (const PlanIo& output : profile.outputs) {
      if (profile.tensors[static_cast<size_t>(output.tensor)].shape.rank == 0 || rows(profile, output) != batch) return;
    }
  }
  if (!any) return;
  for (PlanProfile& profile : plan.profiles) {
    for (size_t i = 0; i < profile.inputs.size(); ++i) profile.inputs[i].batched = is_batched[i];
    for (PlanIo& output : profile.outputs) output.batched = true;
  }
}

// One profile: the imported graph with static shapes, through inference and passes, to a plan. `independent`: whether
// the rows of its batch are.
Result<Plan> compile_profile(const ImportedModel& model, const InputShapes& shapes, bool is_first, Compilation& job,
                             bool& independent) {
  Graph graph = model.graph;
  graph.prepared_budget = job.options.prepared_budget;
  graph.keeps_real_quantisation = job.options.exact;
  if (job.options.quant != nullptr) graph.quant = std::make_shared<QuantJob>(*job.options.quant);
  for (ValueId id : graph.inputs) graph.value(id).shape = shapes.at(graph.value(id).name);

  std::vector<Problem> problems = model.problems;
  infer_and_fold(graph, job.tables.ops, problems);
  if (is_first) job.result.graph = graph;
  if (!problems.empty()) return job.fail(std::move(problems));
  KILN_TRY(verify_graph(graph, true));
  job.dump("infer", graph);
  independent = !sizes_meet_data(model.graph) && rows_are_independent(graph, batch_inputs(model, shapes));

  if (is_first) {
    for (const auto& [key, value] : describe_source(graph)) job.result.plan.metadata[key] = value;
  }
  KILN_ASSIGN(const IoEdges edges, set_io_layouts(graph, job.options));
  KILN_TRY(verify_graph(graph, true));
  KILN_TRY(run_passes(graph, job));
  job.dump("final", graph);
  if (is_first) job.result.quant = graph.quant;

  KILN_ASSIGN(Plan plan, make_plan(graph, job.tables.ops));
  PlanProfile& profile = plan.profiles[0];
  for (size_t i = 0; i < edges.inputs.size(); ++i) set_edge(edges.inputs[i], profile.inputs[i]);
  for (size_t i = 0; i < edges.outputs.size(); ++i) set_edge(edges.outputs[i], profile.outputs[i]);
  return plan;
}

// (height, width) of the first 4-D input, or zeros.
std::pair<int64_t, int64_t> image_size(const PlanProfile& profile) {
  for (const PlanIo& input : profile.inputs) {
    const Shape& shape = profile.tensors[static_cast<size_t>(input.tensor)].shape;
    const int height = input.layout == "NHWC" ? 1 : 2;
    if (shape.rank == 4) return {shape[height], shape[height + 1]};
  }
  return {0, 0};
}

// What the bundle says of itself: where it comes from, and what the exporter, then the user say of task, labels and
// preprocessing. `described` is describe_source's.
Status add_metadata(std::span<const uint8_t> source, const ImportedModel& model,
                    std::map<std::string, std::string> described, Compilation& job) {
  auto& metadata = job.result.plan.metadata;
  metadata.clear();
  metadata["producer"] = std::string("tilekiln ") + kVersion;
  metadata["source_sha256"] = sha256_hex(source);
  for (const auto& [key, value] : model.graph.metadata) metadata["onnx." + key] = value;
  if (const QuantJob* quant = job.result.quant.get(); quant != nullptr) {
    if (quant->quantizes) metadata["precision"] = "int8";
    if (quant->observes) metadata["observe"] = json_strings(quant->observed);
  }

  std::string preset = job.options.preprocess_preset;
  const auto& given = job.options.metadata;
  if (preset.empty() && given.count("preprocess") == 0 && described.count("preset") > 0 &&
      (given.count("task") == 0 || given.at("task") == described["task"])) {
    preset = described["preset"];
    job.result.notices.push_back("preprocessing '" + preset +
                                 "' is taken from the model's metadata (--preprocess says otherwise)");
  }
  described.erase("preset");
  for (const auto& [key, value] : described) metadata[key] = value;
  if (!preset.empty())
    metadata["preprocess"] = preprocess_preset(preset, image_size(job.result.plan.profiles[0]).first);
  for (const auto& [key, value] : given) metadata[key] = value;
  if (metadata.count("preprocess") == 0) return {};
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (const PlanProfile& profile : job.result.plan.profiles) {
    const auto size = image_size(profile);
    if (size.first > 0) sizes.push_back(size);
  }
  return check_preprocess_fits(metadata["preprocess"], sizes);
}

Status check_stage(const std::string& stage, const CompilerTables& tables) {
  if (stage.empty()) return {};
  std::string names;
  for (const std::string& name : stage_names(tables)) {
    if (name == stage) return {};
    names += (names.empty() ? "" : ", ") + name;
  }
  return {Code::kInvalidArgument, "stage '" + stage + "' is unknown; allowed: " + names};
}

}  // namespace

CompilerTables builtin_tables() {
  CompilerTables tables = {{onnx_front_end()}, builtin_ops(), builtin_passes()};
  const auto is_fusing = [](const Pass& pass) { return std::string(pass.name) == "fuse_quantized"; };
  const auto place = std::find_if(tables.passes.begin(), tables.passes.end(), is_fusing);
  tables.passes.insert(place, {"quantize", quantize});
  return tables;
}

std::vector<std::string> stage_names(const CompilerTables& tables) {
  std::vector<std::string> names = {"import", "infer"};
  for (const Pass& pass : tables.passes) names.push_back(pass.name);
  names.push_back("final");
  names.push_back("plan");
  return names;
}

Status compile_model(std::span<const uint8_t> model_bytes, const FileReader& files, const CompilerTables& tables,
                     const CompileOptions& options, CompileResult& result) {
  result = {};
  Compilation job{tables, options, result};
  KILN_TRY(check_stage(options.dump_stage, tables));

  KILN_ASSIGN(ImportedModel model, import_model(model_bytes, files, tables));
  result.description = model.description;
  result.notices = model.notices;
  result.graph = model.graph;
  job.dump("import", model.graph);
  if (model.problems.empty()) KILN_TRY(verify_graph(model.graph, false));
  KILN_TRY(bind_inputs(model, options.bind));

  ProfileShapes shapes = resolve_shapes(model, options);
  result.notices.insert(result.notices.end(), shapes.notices.begin(), shapes.notices.end());
  model.problems.insert(model.problems.end(), shapes.problems.begin(), shapes.problems.end());
  if (shapes.profiles.empty()) return job.fail(std::move(model.problems));

  std::vector<Plan> plans;
  std::vector<bool> independent;
  for (const InputShapes& profile : shapes.profiles) {
    bool rows_are_apart = false;
    KILN_ASSIGN(Plan plan, compile_profile(model, profile, plans.empty(), job, rows_are_apart));
    plans.push_back(std::move(plan));
    independent.push_back(rows_are_apart);
  }
  const std::map<std::string, std::string> described = std::move(result.plan.metadata);
  KILN_ASSIGN(result.plan, merge_plans(std::move(plans)));
  mark_batches(model, independent, result.plan);
  KILN_TRY(add_metadata(model_bytes, model, described, job));
  if (options.dump_stage == "plan") result.dump = print_plan(result.plan);

  result.bundle = write_bundle(result.plan);
  return {};
}

}  // namespace kiln
