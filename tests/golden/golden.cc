#include "golden.h"

#include <algorithm>
#include <cmath>

#include "compile/command.h"
#include "compile/compile.h"
#include "graph/text.h"
#include "ops/definition.h"
#include "passes/infer.h"
#include "text_front_end.h"

namespace kiln::test {
namespace {

using Bytes = std::vector<uint8_t>;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// Words of a command line; '…' and "…" keep blanks together.
std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = '\0';
  for (const char c : line) {
    if (quote != '\0') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == ' ') {
      if (inside) words.push_back(word);
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (inside) words.push_back(word);
  return words;
}

bool read_files(const GoldenCase& golden, std::map<std::string, Bytes>& files, std::string& error) {
  for (const auto& [name, text] : golden.sections) {
    if (ends_with(name, ".hex")) {
      Bytes bytes;
      std::string digits;
      for (const char c : text) {
        if (std::isxdigit(static_cast<unsigned char>(c))) digits += c;
      }
      for (size_t i = 0; i + 1 < digits.size(); i += 2) {
        bytes.push_back(static_cast<uint8_t>(std::strtol(digits.substr(i, 2).c_str(), nullptr, 16)));
      }
      files[name.substr(0, name.size() - 4)] = bytes;
    } else if (ends_with(name, ".onnx") || ends_with(name, ".pb")) {
      if (!encode_onnx_text(text, ends_with(name, ".pb") ? "TensorProto" : "ModelProto", files[name], error)) {
        error = name + ", " + error;
        return false;
      }
    } else {
      files[name] = Bytes(text.begin(), text.end());
    }
  }
  return true;
}

std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  uint64_t state = 1;
  for (ValueId id : graph.inputs) {
    Tensor tensor(graph.value(id).dtype, graph.value(id).shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
      store_f64(tensor.dtype(), tensor.data(), i, static_cast<double>(state >> 33) * 0x1p-30 - 1);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// "" if all outputs agree to 1e-5 of the largest element; else what does not.
std::string compare_graphs(const OpRegistry& ops, const Graph& before, const Graph& after) {
  const std::vector<Tensor> inputs = random_inputs(before);
  auto expected = evaluate_graph(ops, before, inputs);
  if (!expected.ok()) return "the graph before was not evaluated: " + expected.status().message();
  auto actual = evaluate_graph(ops, after, inputs);
  if (!actual.ok()) return "the graph after was not evaluated: " + actual.status().message();
  if (expected->size() != actual->size()) return "the number of outputs changed";
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor& e = (*expected)[i];
    const Tensor& a = (*actual)[i];
    if (e.dtype() != a.dtype() || !(e.shape() == a.shape())) return strf("output %zu changed its type", i);
    double largest = 1;
    double worst = 0;
    for (int64_t k = 0; k < e.num_elements(); ++k) {
      const double ek = element_as_f64(e.dtype(), e.data(), k);
      const double ak = element_as_f64(a.dtype(), a.data(), k);
      if (ek == ak || (std::isnan(ek) && std::isnan(ak))) continue;
      largest = std::max(largest, std::fabs(ek));
      worst = std::isnan(ek - ak) ? INFINITY : std::max(worst, std::fabs(ek - ak));
    }
    if (worst > 1e-5 * largest) return strf("output %zu differs by %g", i, worst);
  }
  return "";
}

struct Output {
  std::string text;
  int exit_code = 0;
};

Output fail(const std::string& message) { return {message + "\nexit 1\n", 1}; }

Output run_passes(const std::string& names, const std::string& text) {
  Result<Graph> parsed = parse_graph(text);
  if (!parsed.ok()) return fail(parsed.status().message());
  Graph graph = std::move(*parsed);
  const CompilerTables tables = builtin_tables();
  std::vector<Problem> problems;
  infer_and_fold(graph, tables.ops, problems);
  if (!problems.empty()) {
    std::string all;
    for (const Problem& problem : problems) all += std::string(code_name(problem.code)) + ": " + problem.message + "\n";
    return {all + "exit 1\n", 1};
  }
  const Graph before = graph;
  std::string log;
  for (const std::string& name : split(names, ',')) {
    if (name == "infer") continue;
    const Pass* found = nullptr;
    for (const Pass& pass : tables.passes) {
      if (name == pass.name) found = &pass;
    }
    if (found == nullptr) return fail("there is no pass '" + name + "'");
    const Result<int> changes = found->run(graph, tables.ops);
    if (!changes.ok()) return fail(name + ": " + changes.status().message());
    log += "# " + name + strf(": %d\n", changes.value());
    const Status verified = verify_graph(graph, true);
    if (!verified.ok()) return fail(name + " left a wrong graph: " + verified.message() + "\n" + print_graph(graph));
  }
  const std::string difference = compare_graphs(tables.ops, before, graph);
  if (!difference.empty()) return fail(difference + "\n" + log + print_graph(graph));
  return {log + print_graph(graph), 0};
}

// A command of the native tool, with the text front end added. Files that it writes join the others.
Output run_tool(const std::vector<std::string>& command, std::map<std::string, Bytes>& files) {
  const FileReader reader = [&files](const std::string& name) -> const Bytes* {
    const auto found = files.find(name);
    return found == files.end() ? nullptr : &found->second;
  };
  const CommandResult result = run_command(command, reader, tables_with_text());
  Output output{result.out + result.err, result.exit_code};
  if (result.exit_code != 0) output.text += strf("exit %d\n", result.exit_code);
  for (const auto& [name, bytes] : result.files) {
    output.text += "wrote " + name + "\n";
    if (ends_with(name, ".svg")) output.text.append(bytes.begin(), bytes.end());
    files[name] = bytes;
  }
  return output;
}

Output run_line(const std::string& line, std::map<std::string, Bytes>& files) {
  const std::vector<std::string> command = split_words(line);
  const auto text_of = [&](const std::string& file) { return std::string(files[file].begin(), files[file].end()); };
  if (command.size() == 3 && command[0] == "pass") return run_passes(command[1], text_of(command[2]));
  if (command.size() != 2 || command[0] != "parse") return run_tool(command, files);
  const Result<Graph> graph = parse_graph(text_of(command[1]));
  return graph.ok() ? Output{print_graph(graph.value()), 0} : fail(graph.status().message());
}

}  // namespace

GoldenCase parse_golden(const std::string& text) {
  GoldenCase golden;
  std::string* target = &golden.head;
  for (const std::string& line : split(text, '\n')) {
    if (line.rfind("--- ", 0) == 0) {
      const std::string name = line.substr(4);
      if (name == "expected") {
        target = &golden.expected;
      } else {
        golden.sections.emplace_back(name, "");
        target = &golden.sections.back().second;
      }
      continue;
    }
    if (target == &golden.head && line.rfind("$ ", 0) == 0) golden.commands.push_back(line.substr(2));
    *target += line + "\n";
  }
  // The last line ends with the file: split() gave one empty line too many.
  if (ends_with(*target, "\n")) target->pop_back();
  return golden;
}

std::string print_golden(const GoldenCase& golden) {
  std::string text = golden.head;
  for (const auto& [name, section] : golden.sections) text += "--- " + name + "\n" + section;
  return text + "--- expected\n" + golden.expected;
}

GoldenOutput run_golden(const GoldenCase& golden) {
  std::map<std::string, Bytes> files;
  std::string error;
  if (golden.commands.empty()) return {"the file has no line that begins with '$ '\n", {1}};
  if (!read_files(golden, files, error)) return {error + "\n", {1}};
  GoldenOutput all;
  for (const std::string& line : golden.commands) {
    const Output output = run_line(line, files);
    if (golden.commands.size() > 1) all.text += "$ " + line + "\n";
    all.text += output.text;
    all.exit_codes.push_back(output.exit_code);
  }
  return all;
}

}  // namespace kiln::test
