// Runs golden files: kiln_golden [--rewrite] FILE-or-FOLDER… (see golden.h for their form). Exit code 1 if one differs.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "golden.h"

namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> find_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.path().extension() == ".txt") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The first lines that differ, with their numbers.
void print_difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string line_a, line_b;
  int shown = 0;
  for (int number = 1; shown < 5; ++number) {
    const bool has_a = static_cast<bool>(std::getline(a, line_a));
    const bool has_b = static_cast<bool>(std::getline(b, line_b));
    if (!has_a && !has_b) break;
    if (has_a && has_b && line_a == line_b) continue;
    std::printf("  line %d\n", number);
    if (has_a) std::printf("    expected: %s\n", line_a.c_str());
    if (has_b) std::printf("    got:      %s\n", line_b.c_str());
    ++shown;
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool rewrite = false;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rewrite") == 0) {
      rewrite = true;
      continue;
    }
    for (const fs::path& file : find_files(argv[i])) files.push_back(file);
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: kiln_golden [--rewrite] FILE-or-FOLDER...\n");
    return 2;
  }
  int failed = 0;
  int rewritten = 0;
  for (const fs::path& file : files) {
    kiln::test::GoldenCase golden = kiln::test::parse_golden(read_text(file));
    const kiln::test::GoldenOutput output = kiln::test::run_golden(golden);
    const bool must_fail = file.filename().string().rfind("bad-", 0) == 0;
    bool as_named = true;
    for (const int code : output.exit_codes) as_named = as_named && must_fail == (code != 0);
    if (!as_named) {
      ++failed;
      std::printf("FAILED %s: a command %s, against the case's name\n%s", file.c_str(),
                  must_fail ? "succeeded" : "failed", output.text.c_str());
      continue;
    }
    if (output.text == golden.expected) continue;
    if (rewrite) {
      golden.expected = output.text;
      std::ofstream(file, std::ios::binary) << print_golden(golden);
      std::printf("rewrote %s\n", file.c_str());
      ++rewritten;
      continue;
    }
    ++failed;
    std::printf("FAILED %s\n", file.c_str());
    print_difference(golden.expected, output.text);
  }
  std::printf("golden: %zu files, %d failed, %d rewritten\n", files.size(), failed, rewritten);
  return failed == 0 ? 0 : 1;
}
