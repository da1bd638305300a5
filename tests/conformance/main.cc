// kiln_conformance [--exceptions FILE] [--json FILE] [--operators FILE] [--verbose] DIR…: runs ONNX's node test
// vectors. A DIR is a folder of vectors or one vector; one that does not exist is passed over with a notice.
// --operators writes docs/operators.md. Exit code 1 if a vector failed.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "compile/json.h"
#include "operators_page.h"
#include "vector_case.h"

namespace {

using kiln::conformance::CaseResult;
using kiln::conformance::Outcome;
namespace fs = std::filesystem;

constexpr const char* kOutcomes[] = {"passed", "failed", "skipped"};

// Lines "name reason…"; '#' begins a comment.
bool read_exceptions(const char* path, std::map<std::string, std::string>& exceptions) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return false;
  char line[1024];
  while (std::fgets(line, sizeof line, file)) {
    line[std::strcspn(line, "\r\n")] = 0;
    if (line[0] == 0 || line[0] == '#') continue;
    char* space = std::strchr(line, ' ');
    if (space == nullptr) continue;
    *space = 0;
    exceptions[line] = space + 1;
  }
  std::fclose(file);
  return true;
}

std::string print_json(const std::vector<CaseResult>& results) {
  std::string text = "[";
  for (const CaseResult& result : results) {
    std::string ops;
    for (const std::string& op : result.ops) ops += (ops.empty() ? "" : ", ") + kiln::json_string(op);
    text += (text.size() > 1 ? ",\n " : "\n ") + std::string("{\"name\": ") + kiln::json_string(result.name) +
            ", \"ops\": [" + ops + "], \"opset\": " + std::to_string(result.opset) + ", \"outcome\": \"" +
            kOutcomes[static_cast<int>(result.outcome)] +
            "\", \"at_run_time\": " + (result.at_run_time ? "true" : "false") +
            ", \"reason\": " + kiln::json_string(result.reason) + "}";
  }
  return text + "\n]\n";
}

bool write_file(const char* path, const std::string& text) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> exceptions;
  std::map<std::string, std::string> folders;  // by name: a vector that two folders hold runs once
  const char* json_path = nullptr;
  const char* operators_path = nullptr;
  bool is_verbose = false;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--verbose")) {
      is_verbose = true;
    } else if (!std::strcmp(argv[i], "--json") && i + 1 < argc) {
      json_path = argv[++i];
    } else if (!std::strcmp(argv[i], "--operators") && i + 1 < argc) {
      operators_path = argv[++i];
    } else if (!std::strcmp(argv[i], "--exceptions") && i + 1 < argc) {
      if (!read_exceptions(argv[++i], exceptions)) {
        std::fprintf(stderr, "error: %s cannot be read\n", argv[i]);
        return 2;
      }
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr,
                   "usage: kiln_conformance [--exceptions FILE] [--json FILE] [--operators FILE] [--verbose] DIR...\n");
      return 2;
    } else if (!fs::is_directory(argv[i])) {
      std::printf("notice: %s is not there\n", argv[i]);
    } else if (fs::exists(fs::path(argv[i]) / "model.onnx")) {
      folders[fs::path(argv[i]).filename().string()] = argv[i];
    } else {
      for (const auto& entry : fs::directory_iterator(argv[i])) {
        if (!fs::exists(entry.path() / "model.onnx")) continue;
        folders[entry.path().filename().string()] = entry.path().string();
      }
    }
  }

  const kiln::CompilerTables tables = kiln::builtin_tables();
  std::vector<CaseResult> results;
  std::map<std::string, int> unknown;  // reason to count
  int counts[3] = {};
  int num_excepted = 0;
  for (const auto& [name, folder] : folders) {
    CaseResult result = kiln::conformance::run_case(folder, tables);
    const auto exception = exceptions.find(name);
    if (exception != exceptions.end()) {
      if (result.outcome == Outcome::kPassed) {
        result.outcome = Outcome::kFailed;
        result.reason = "passes, but stands among the exceptions";
      } else {
        result.outcome = Outcome::kSkipped;
        result.reason = "exception: " + exception->second;
        ++num_excepted;
        std::printf("exception %s: %s\n", name.c_str(), exception->second.c_str());
      }
    } else if (result.outcome == Outcome::kSkipped) {
      ++unknown[result.reason];
    }
    if (result.outcome == Outcome::kFailed)
      std::printf("FAILED %s: %s\n", name.c_str(), result.reason.c_str());
    else if (is_verbose)
      std::printf("%s %s %s\n", kOutcomes[int(result.outcome)], name.c_str(), result.reason.c_str());
    std::fflush(stdout);
    ++counts[static_cast<int>(result.outcome)];
    results.push_back(std::move(result));
  }
  for (const auto& [reason, count] : unknown) std::printf("skipped %d: %s\n", count, reason.c_str());
  const auto at_run_time = std::count_if(results.begin(), results.end(), [](const CaseResult& r) {
    return r.outcome == Outcome::kPassed && r.at_run_time;
  });
  std::printf("%d passed (%d of them at run time too), %d failed, %d skipped (%d exceptions)\n", counts[0],
              int(at_run_time), counts[1], counts[2], num_excepted);
  if (json_path != nullptr && !write_file(json_path, print_json(results))) {
    std::fprintf(stderr, "error: %s cannot be written\n", json_path);
    return 2;
  }
  const std::string page = kiln::conformance::print_operators_page(tables.ops, results, exceptions);
  if (operators_path != nullptr && !write_file(operators_path, page)) {
    std::fprintf(stderr, "error: %s cannot be written\n", operators_path);
    return 2;
  }
  return counts[1] > 0 ? 1 : 0;
}
