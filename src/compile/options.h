// The compiler's command line, as the native tool and compiler.wasm take it.
#pragma once

#include <string>
#include <vector>

#include "compile/compile.h"

namespace kiln {

struct CommandLine {
  std::string command;  // "compile", "inspect", "tensor", "help" or "version"
  std::string model;    // the file to read
  std::string output;   // -o
  CompileOptions compile;
  bool json = false;
  bool check = false;
  std::string svg;           // file to write
  std::string quant_report;  // the same
};

// Files that flags name (--labels, --preprocess, --sidecar, --bind) are read at once. kInvalidArgument is a wrong usage
// (exit code 2) and says what, which value, what is allowed; other codes are files that are missing or wrong.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args, const FileReader& files);

// What `help` prints.
const char* command_line_help();

}  // namespace kiln
