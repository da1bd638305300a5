// Runs one command line of the compiler: what the native tool and compiler.wasm share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/compile.h"

namespace kiln {

struct CommandResult {
  int exit_code = 0;                                  // 0 done, 1 failed, 2 wrong usage
  std::string out;                                    // for stdout
  std::string err;                                    // for stderr: lines "error: …", "notice: …"
  std::map<std::string, std::vector<uint8_t>> files;  // to write, by name
  std::vector<Problem> problems;                      // never empty when exit_code is not 0
};

// External data of a model is asked for beside the model first ("folder/weights.bin"), then by its bare name.
CommandResult run_command(const std::vector<std::string>& args, const FileReader& files, const CompilerTables& tables);

}  // namespace kiln
