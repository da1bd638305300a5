#include "compile/command.h"

#include "base/npy.h"
#include "bundle/read.h"
#include "compile/graph_svg.h"
#include "compile/inspect.h"
#include "compile/options.h"
#include "compile/print_plan.h"
#include "compile/quant_files.h"
#include "compile/version.h"
#include "onnx/sniff.h"
#include "onnx/tensor.h"

namespace kiln {
namespace {

void add_error(CommandResult& result, const Status& status, int exit_code) {
  result.exit_code = exit_code;
  result.err += "error: " + status.message() + "\n";
  if (!result.problems.empty()) return;
  Problem problem;
  problem.code = status.code();
  problem.node = status.node();
  problem.message = status.message();
  result.problems.push_back(std::move(problem));
}

// The file that the command is about, with its name before every message.
const std::vector<uint8_t>* find_model(const CommandLine& line, const FileReader& files, CommandResult& result) {
  const std::vector<uint8_t>* bytes = files ? files(line.model) : nullptr;
  if (bytes == nullptr)
    add_error(result, {Code::kNotFound, line.model + ": there is no such file, or it cannot be read"}, 1);
  return bytes;
}

FileReader beside(const std::string& model, const FileReader& files) {
  const size_t slash = model.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "" : model.substr(0, slash + 1);
  return [folder, &files](const std::string& name) {
    const std::vector<uint8_t>* bytes = files(folder + name);
    return bytes != nullptr ? bytes : files(name);
  };
}

void add_notices(CommandResult& result, const CompileResult& compiled) {
  for (const std::string& notice : compiled.notices) result.err += "notice: " + notice + "\n";
}

// Problems one a line when there are several, so that all are seen at once.
void add_failure(CommandResult& result, const std::string& model, const Status& status, CompileResult& compiled) {
  result.problems = std::move(compiled.problems);
  if (result.problems.size() < 2) {
    add_error(result, {status.code(), model + ": " + status.message(), status.node()}, 1);
    return;
  }
  add_error(result, {status.code(), model + strf(": %zu problems:", result.problems.size())}, 1);
  for (const Problem& problem : result.problems) {
    result.err += std::string("  ") + code_name(problem.code) + ": " + problem.message + "\n";
  }
}

std::string summary(const CommandLine& line, const CompileResult& compiled) {
  std::string text = line.output + ": " + print_bytes(compiled.bundle.size()) + ", weights " +
                     print_bytes(compiled.plan.weights.size()) + "\n";
  for (size_t p = 0; p < compiled.plan.profiles.size(); ++p) {
    const PlanProfile& profile = compiled.plan.profiles[p];
    text += strf("profile %zu: %zu steps, ", p, profile.steps.size()) + print_count(count_macs(profile)) +
            " MACs, arena " + print_bytes(profile.arena_bytes) + "\n" + print_io(profile);
  }
  return text;
}

void run_compile(const CommandLine& line, const FileReader& files, const CompilerTables& tables,
                 CommandResult& result) {
  const std::vector<uint8_t>* model = find_model(line, files, result);
  if (model == nullptr) return;
  CompileResult compiled;
  const Status status = compile_model(*model, beside(line.model, files), tables, line.compile, compiled);
  add_notices(result, compiled);
  result.out += compiled.dump;
  if (!status.ok()) {
    if (status.code() == Code::kInvalidArgument && compiled.problems.empty())
      add_error(result, status, 2);
    else
      add_failure(result, line.model, status, compiled);
    return;
  }
  if (compiled.dump.empty()) result.out += summary(line, compiled);
  if (!line.quant_report.empty() && compiled.quant != nullptr) {
    const std::string report = quant_report_json(*compiled.quant);
    result.files[line.quant_report] = std::vector<uint8_t>(report.begin(), report.end());
  }
  result.files[line.output] = std::move(compiled.bundle);
}

void inspect_bundle(const CommandLine& line, const std::vector<uint8_t>& bytes, CommandResult& result) {
  Tensor aligned(DType::kU8, Shape{static_cast<int64_t>(bytes.size())});  // the reader wants 64-byte alignment
  if (aligned.data() == nullptr)
    return add_error(result, {Code::kOutOfMemory, line.model + ": no memory for the bundle"}, 1);
  std::copy(bytes.begin(), bytes.end(), aligned.as<uint8_t>());
  const Result<BundleView> view = read_bundle({aligned.as<uint8_t>(), bytes.size()});
  if (!view.ok()) return add_error(result, {view.status().code(), line.model + ": " + view.status().message()}, 1);
  if (!line.svg.empty() || (!line.compile.dump_stage.empty() && line.compile.dump_stage != "plan")) {
    return add_error(result,
                     {Code::kInvalidArgument, line.model + " is a bundle, which holds no graph: --svg and --stage need "
                                                           "an ONNX model; allowed here: --stage plan"},
                     2);
  }
  const Plan plan = unpack_bundle(view.value());
  result.out = line.json ? describe_bundle_json(plan, bytes.size()) : describe_bundle(plan, bytes.size());
}

void run_inspect(const CommandLine& line, const FileReader& files, const CompilerTables& tables,
                 CommandResult& result) {
  const std::vector<uint8_t>* model = find_model(line, files, result);
  if (model == nullptr) return;
  if (sniff_file(*model) == FileKind::kBundle) return inspect_bundle(line, *model, result);
  CompileResult compiled;
  const Status status = compile_model(*model, beside(line.model, files), tables, line.compile, compiled);
  if (!status.ok() && compiled.problems.empty()) {
    if (status.code() == Code::kInvalidArgument) return add_error(result, status, 2);
    if (compiled.description.empty())
      return add_error(result, {status.code(), line.model + ": " + status.message()}, 1);
    Problem problem;
    problem.code = status.code();
    problem.node = status.node();
    problem.message = status.message();
    compiled.problems.push_back(std::move(problem));
  }
  if (!line.json) add_notices(result, compiled);
  const bool misses_stage = !line.compile.dump_stage.empty() && compiled.dump.empty();
  if (misses_stage && !line.json && !line.check) return add_failure(result, line.model, status, compiled);
  result.problems = compiled.problems;
  if (!line.svg.empty()) {
    const std::string svg = draw_graph(compiled.graph);
    result.files[line.svg] = std::vector<uint8_t>(svg.begin(), svg.end());
  }
  if (line.json) {
    result.out = describe_model_json(compiled);
  } else if (line.check) {
    for (const Problem& problem : compiled.problems) {
      result.out += std::string(code_name(problem.code)) + ": " + problem.message + "\n";
    }
    if (compiled.problems.empty()) result.out = "no problems\n";
  } else {
    result.out = compiled.dump.empty() ? describe_model(compiled) : compiled.dump;
  }
  if (!compiled.problems.empty() && (line.check || misses_stage)) result.exit_code = 1;
}

void run_tensor(const CommandLine& line, const FileReader& files, CommandResult& result) {
  const std::vector<uint8_t>* bytes = find_model(line, files, result);
  if (bytes == nullptr) return;
  const Result<Tensor> tensor = read_tensor_proto(*bytes);
  if (!tensor.ok())
    return add_error(result, {tensor.status().code(), line.model + ": " + tensor.status().message()}, 1);
  result.out = std::string(dtype_name(tensor.value().dtype())) + print_shape(tensor.value().shape()) + "\n";
  if (!line.output.empty()) result.files[line.output] = write_npy(tensor.value());
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& args, const FileReader& files, const CompilerTables& tables) {
  CommandResult result;
  const Result<CommandLine> parsed = parse_command_line(args, files);
  if (!parsed.ok()) {
    add_error(result, parsed.status(), parsed.status().code() == Code::kInvalidArgument ? 2 : 1);
    return result;
  }
  const CommandLine& line = parsed.value();
  if (line.command == "help")
    result.out = command_line_help();
  else if (line.command == "version")
    result.out = std::string("tilekiln ") + kVersion + "\n";
  else if (line.command == "compile")
    run_compile(line, files, tables, result);
  else if (line.command == "inspect")
    run_inspect(line, files, tables, result);
  else
    run_tensor(line, files, result);
  return result;
}

}  // namespace kiln
