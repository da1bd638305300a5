#include "wasm/compiler_abi.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/command.h"
#include "compile/json.h"

namespace {

struct Job {
  std::unordered_map<std::string, std::vector<uint8_t>> files;
  kiln::CommandResult result;
  std::string problems_json = "[]";
};

Job& job() {
  static Job current;
  return current;
}

const std::vector<uint8_t>* result_file(const char* name, size_t name_bytes) {
  if (name == nullptr) return nullptr;
  const auto found = job().result.files.find(std::string(name, name_bytes));
  return found == job().result.files.end() ? nullptr : &found->second;
}

}  // namespace

extern "C" {

void* kilnc_alloc(size_t bytes) { return std::malloc(bytes > 0 ? bytes : 1); }
void kilnc_free(void* pointer) { std::free(pointer); }

void kilnc_reset() { job() = {}; }

void kilnc_add_file(const char* name, size_t name_bytes, const void* data, size_t bytes) {
  if (name == nullptr || (data == nullptr && bytes > 0)) return;
  const auto* begin = static_cast<const uint8_t*>(data);
  job().files[std::string(name, name_bytes)].assign(begin, begin + bytes);
}

int32_t kilnc_run(const char* arguments, size_t bytes) {
  std::vector<std::string> args;
  for (size_t i = 0; i < bytes;) {
    const void* end = std::memchr(arguments + i, '\0', bytes - i);
    const size_t length =
        end != nullptr ? static_cast<size_t>(static_cast<const char*>(end) - (arguments + i)) : bytes - i;
    args.emplace_back(arguments + i, length);
    i += length + 1;
  }
  const kiln::FileReader files = [](const std::string& name) -> const std::vector<uint8_t>* {
    const auto found = job().files.find(name);
    return found == job().files.end() ? nullptr : &found->second;
  };
  job().result = kiln::run_command(args, files, kiln::builtin_tables());
  job().problems_json = kiln::json_problems(job().result.problems);
  return job().result.exit_code;
}

const char* kilnc_stdout() { return job().result.out.c_str(); }
const char* kilnc_stderr() { return job().result.err.c_str(); }

const void* kilnc_result_data(const char* name, size_t name_bytes) {
  const std::vector<uint8_t>* file = result_file(name, name_bytes);
  return file != nullptr ? file->data() : nullptr;
}

size_t kilnc_result_bytes(const char* name, size_t name_bytes) {
  const std::vector<uint8_t>* file = result_file(name, name_bytes);
  return file != nullptr ? file->size() : 0;
}

const char* kilnc_problems_json() { return job().problems_json.c_str(); }
}
