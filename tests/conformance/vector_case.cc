#include "vector_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include <onnx.pb.h>

#include "aligned_bytes.h"
#include "onnx/import.h"
#include "onnx/tensor.h"
#include "runtime/session.h"

namespace kiln::conformance {
namespace {

namespace fs = std::filesystem;

bool read_file(const fs::path& path, std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  uint8_t buffer[65536];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, file)) > 0) bytes.insert(bytes.end(), buffer, buffer + n);
  const bool good = std::ferror(file) == 0;
  std::fclose(file);
  return good;
}

// input_0.pb, input_1.pb, … or the outputs of a data set.
Result<std::vector<Tensor>> read_tensors(const fs::path& folder, const char* kind) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / strf("%s_%d.pb", kind, i);
    std::vector<uint8_t> bytes;
    if (!fs::exists(path) || !read_file(path, bytes)) return tensors;
    Result<Tensor> tensor = read_tensor_proto(bytes);
    if (!tensor.ok())
      return Status(tensor.status().code(), path.filename().string() + ": " + tensor.status().message());
    tensors.push_back(std::move(*tensor));
  }
}

// A vector names the oldest opset that has its form of the operator. Where that is below what the compiler reads, opset
// 7 has the same form: had it a newer one, the vector would name that.
void raise_opset(std::vector<uint8_t>& model) {
  onnx::ModelProto proto;
  if (!proto.ParseFromArray(model.data(), static_cast<int>(model.size()))) return;
  bool raised = false;
  for (onnx::OperatorSetIdProto& opset : *proto.mutable_opset_import()) {
    if (!opset.domain().empty() || opset.version() >= kMinOpset) continue;
    opset.set_version(kMinOpset);
    raised = true;
  }
  if (!raised) return;
  model.resize(proto.ByteSizeLong());
  proto.SerializeToArray(model.data(), static_cast<int>(model.size()));
}

// The vectors keep bfloat16 as uint16.
void take_bits_as_bf16(Tensor& tensor) {
  if (tensor.dtype() != DType::kU16) return;
  Tensor bits(DType::kBF16, tensor.shape());
  if (tensor.bytes() > 0) std::memcpy(bits.data(), tensor.data(), tensor.bytes());
  tensor = std::move(bits);
}

bool is_close(double expected, double actual) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (expected == actual) return true;
  return std::fabs(expected - actual) <= 1e-5 + 1e-3 * std::fabs(expected);
}

// "" if they agree.
std::string compare(const Tensor& expected, const TensorRef& actual) {
  Shape shape;
  for (int i = 0; i < actual.rank; ++i) shape.push_back(actual.dims[i]);
  if (actual.dtype != expected.dtype() || !(shape == expected.shape())) {
    return std::string("expected ") + dtype_name(expected.dtype()) + print_shape(expected.shape()) + ", got " +
           dtype_name(actual.dtype) + print_shape(shape);
  }
  const int64_t n = expected.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    const bool is_equal =
        is_float(actual.dtype)
            ? is_close(element_as_f64(actual.dtype, expected.data(), i), element_as_f64(actual.dtype, actual.data, i))
            : element_as_i64(actual.dtype, expected.data(), i) == element_as_i64(actual.dtype, actual.data, i);
    if (!is_equal) {
      return strf("element %lld: expected %.9g, got %.9g", static_cast<long long>(i),
                  element_as_f64(actual.dtype, expected.data(), i), element_as_f64(actual.dtype, actual.data, i));
    }
  }
  return "";
}

// The graph inputs that `name`, an input itself or computed from some, depends on.
std::set<std::string> inputs_behind(const Graph& graph, const std::string& name) {
  const Uses uses = compute_uses(graph);
  std::set<std::string> found;
  std::vector<ValueId> open;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) open.push_back(static_cast<ValueId>(i));
  }
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || !seen.insert(id).second) continue;
    if (std::find(graph.inputs.begin(), graph.inputs.end(), id) != graph.inputs.end())
      found.insert(graph.value(id).name);
    const int producer = uses.producer[static_cast<size_t>(id)];
    if (producer < 0) continue;
    for (ValueId input : graph.nodes[static_cast<size_t>(producer)].inputs) open.push_back(input);
  }
  return found;
}

bool has_unknown_operator(const std::vector<Problem>& problems, std::string* ops) {
  std::set<std::string> names;
  for (const Problem& problem : problems) {
    if (problem.code == Code::kUnknownOperator) names.insert(problem.op);
  }
  for (const std::string& name : names) *ops += (ops->empty() ? "" : ", ") + name;
  return !names.empty();
}

// A model with one set of inputs.
struct Vector {
  const std::vector<uint8_t>& model;
  const CompilerTables& tables;
  const Graph& graph;  // as imported
  const std::vector<Tensor>& inputs;
  std::vector<Tensor>& outputs;

  const std::string& input_name(size_t i) const { return graph.value(graph.inputs[i]).name; }

  Status compile(const std::set<std::string>& bound, CompileResult& result) const {
    CompileOptions options;
    std::vector<InputShapeFlag> shapes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (bound.count(input_name(i)))
        options.bind[input_name(i)] = inputs[i];
      else
        shapes.push_back({input_name(i), inputs[i].shape()});
    }
    if (!shapes.empty()) options.profiles.push_back(shapes);
    return compile_model(model, nullptr, tables, options, result);
  }

  // Binds what the checker asks for until it compiles.
  Status compile_for_run_time(std::set<std::string>& bound, CompileResult& result) const {
    for (;;) {
      const Status status = compile(bound, result);
      if (status.ok()) return status;
      const size_t before = bound.size();
      for (const Problem& problem : result.problems) {
        constexpr std::string_view kAsks = "computed at run time from '";
        if (problem.value.compare(0, kAsks.size(), kAsks) != 0) continue;
        const std::string name = problem.value.substr(kAsks.size(), problem.value.size() - kAsks.size() - 1);
        for (const std::string& input : inputs_behind(graph, name)) bound.insert(input);
      }
      if (bound.size() == before) return status;
    }
  }

  // "" if the bundle gives the expected outputs.
  std::string run(const std::vector<uint8_t>& bundle, const std::set<std::string>& bound, int* num_steps) {
    test::AlignedBytes bytes(bundle);
    Result<std::unique_ptr<Session>> loaded = Session::load(bytes.span(), builtin_kernels());
    if (!loaded.ok()) return "load: " + loaded.status().message();
    Session& session = **loaded;
    int index = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (bound.count(input_name(i))) continue;
      const TensorRef to = session.input(index++);
      if (to.dtype != inputs[i].dtype() || to.num_elements() != inputs[i].num_elements()) return "inputs do not match";
      if (inputs[i].bytes() > 0) std::memcpy(to.data, inputs[i].data(), inputs[i].bytes());
    }
    session.run();
    *num_steps = session.num_steps();
    if (session.outputs(0).size() != outputs.size()) return strf("%zu outputs", session.outputs(0).size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (session.output(static_cast<int>(i)).dtype == DType::kBF16) take_bits_as_bf16(outputs[i]);
      const std::string difference = compare(outputs[i], session.output(static_cast<int>(i)));
      if (!difference.empty()) return strf("output %zu: ", i) + difference;
    }
    return "";
  }
};

}  // namespace

CaseResult run_case(const std::string& folder, const CompilerTables& tables) {
  CaseResult result;
  result.name = fs::path(folder).filename().string();
  const auto stop = [&](Outcome outcome, const std::string& reason) {
    result.outcome = outcome;
    result.reason = reason;
    return result;
  };
  std::vector<uint8_t> model;
  if (!read_file(fs::path(folder) / "model.onnx", model)) return stop(Outcome::kFailed, "model.onnx cannot be read");
  raise_opset(model);
  const Result<ImportedModel> imported = import_onnx(model, nullptr);
  if (!imported.ok()) return stop(Outcome::kFailed, "import: " + imported.status().message());
  const Graph& graph = imported.value().graph;
  std::set<std::string> ops;
  for (const Node& node : graph.nodes) {
    ops.insert(node.domain.empty() ? node.op : node.domain + "." + node.op);
    if (node.domain.empty()) result.opset = node.opset;
  }
  result.ops.assign(ops.begin(), ops.end());
  std::string unknown;
  for (const std::string& op : ops) {
    const size_t dot = op.rfind('.');
    const std::string domain = dot == std::string::npos ? "" : op.substr(0, dot);
    if (tables.ops.find(op.substr(dot == std::string::npos ? 0 : dot + 1), domain) == nullptr) {
      unknown += (unknown.empty() ? "" : ", ") + op;
    }
  }
  if (!unknown.empty()) return stop(Outcome::kSkipped, "unknown operator " + unknown);

  std::vector<fs::path> data_sets;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) data_sets.push_back(entry.path());
  }
  std::sort(data_sets.begin(), data_sets.end());
  if (data_sets.empty()) return stop(Outcome::kFailed, "no test_data_set");
  for (const fs::path& data_set : data_sets) {
    Result<std::vector<Tensor>> inputs = read_tensors(data_set, "input");
    Result<std::vector<Tensor>> outputs = read_tensors(data_set, "output");
    if (!inputs.ok()) return stop(Outcome::kFailed, inputs.status().message());
    if (!outputs.ok()) return stop(Outcome::kFailed, outputs.status().message());
    if (inputs.value().size() != graph.inputs.size()) return stop(Outcome::kFailed, "inputs are missing");
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (graph.value(graph.inputs[i]).dtype == DType::kBF16) take_bits_as_bf16((*inputs)[i]);
    }
    Vector vector = {model, tables, graph, inputs.value(), outputs.value()};

    CompileResult compiled;
    std::set<std::string> all;
    for (size_t i = 0; i < graph.inputs.size(); ++i) all.insert(vector.input_name(i));
    std::set<std::string> bound;
    for (const bool folds : {false, true}) {
      std::set<std::string>& used = folds ? all : bound;
      const char* stage = folds ? "folded: " : "run: ";
      const Status status = folds ? vector.compile(used, compiled) : vector.compile_for_run_time(used, compiled);
      if (!status.ok()) {
        std::string names;
        if (has_unknown_operator(compiled.problems, &names))
          return stop(Outcome::kSkipped, "unknown operator " + names);
        return stop(Outcome::kFailed, stage + status.message());
      }
      int num_steps = 0;
      const std::string difference = vector.run(compiled.bundle, used, &num_steps);
      if (!difference.empty()) return stop(Outcome::kFailed, stage + difference);
      if (!folds && num_steps > 0 && bound.size() < all.size()) result.at_run_time = true;
    }
  }
  result.outcome = Outcome::kPassed;
  return result;
}

}  // namespace kiln::conformance
