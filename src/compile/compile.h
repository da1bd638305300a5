// The compile driver: ONNX bytes in, bundle bytes out, a line a stage. What the native tool and compiler.wasm both
// call.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/definition.h"
#include "plan/plan.h"
#include "quant/quant_job.h"

namespace kiln {

// A file's bytes by name: external data, .npy to bind. Null when there is none.
using FileReader = std::function<const std::vector<uint8_t>*(const std::string& name)>;

// What a front end makes of a model file. Shapes of graph inputs may hold unknown dims; dim names by input and axis.
struct ImportedModel {
  Graph graph;
  std::string description;  // format and producer: "ONNX, IR version 8, opset 13, made by pytorch 1.13"
  std::map<std::string, std::vector<std::string>> dim_names;  // input name -> name of each dim, "" if it has none
  std::vector<Problem> problems;
  std::vector<std::string> notices;  // "IR version 14 is newer than 13, which tilekiln knows", …
};

// A way to read models. The ONNX one is built in; tests add the text IR from outside.
struct FrontEnd {
  const char* name;
  bool (*accepts)(std::span<const uint8_t> bytes);
  Result<ImportedModel> (*import)(std::span<const uint8_t> bytes, const FileReader& files);
};

// A rewrite of the graph. Returns how many places changed, or an error.
struct Pass {
  const char* name;
  Result<int> (*run)(Graph& graph, const OpRegistry& ops);
};

// What the compiler is made of; builtin_tables() is everything in this repository, tests append to a copy.
struct CompilerTables {
  std::vector<FrontEnd> front_ends;
  OpRegistry ops;
  std::vector<Pass> passes;  // in order
};
CompilerTables builtin_tables();

struct InputShapeFlag {
  std::string input;  // may be empty when the model has one input
  Shape shape;        // -1 where --dynamic-batch or --dynamic-size fills in
};

struct CompileOptions {
  std::vector<std::vector<InputShapeFlag>> profiles;      // one entry an --input-shape flag
  std::vector<int64_t> dynamic_batch;                     // 1,4,8
  std::vector<std::pair<int64_t, int64_t>> dynamic_size;  // (h, w)
  std::string input_layout;                               // "", "NCHW" or "NHWC"
  std::string output_layout;
  std::map<std::string, Tensor> bind;           // graph inputs that become constants
  std::map<std::string, std::string> metadata;  // task, labels, preprocess, …: into the bundle as they are
  double prepared_budget = 1;                   // Graph::prepared_budget
  bool exact = false;                           // Graph::keeps_real_quantisation
  std::shared_ptr<const QuantJob> quant;        // what is asked of quantisation; null: nothing
  std::string preprocess_preset;                // "yolox", …: becomes "preprocess" once the input's size is known
  std::string dump_stage;  // "import", "infer", a pass name, "final", "plan": what CompileResult::dump shows
};

struct CompileResult {
  std::vector<uint8_t> bundle;
  std::vector<Problem> problems;          // all of them, when compiling fails
  std::vector<std::string> notices;       // for the user, not errors
  std::string description;                // ImportedModel::description
  std::string dump;                       // the first profile's graph or plan as text after dump_stage
  std::shared_ptr<const QuantJob> quant;  // what came of CompileOptions::quant, of the first profile
  Graph graph;  // that graph; after "infer" if dump_stage is empty, "import" if inference has problems
  Plan plan;
};

// The names that dump_stage takes, in order.
std::vector<std::string> stage_names(const CompilerTables& tables);

// Compiles a model. On failure the Status summarises and `result.problems` has every problem.
Status compile_model(std::span<const uint8_t> model, const FileReader& files, const CompilerTables& tables,
                     const CompileOptions& options, CompileResult& result);

}  // namespace kiln
