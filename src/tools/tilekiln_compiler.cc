// tilekiln-compiler: the compiler's commands on files of this machine (see compile/options.h, or run it with `help`).
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/command.h"

namespace {

// Reads the whole file into `bytes`; false if there is none or it cannot be read.
bool read_file(const std::string& name, std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(name.c_str(), "rb");
  if (file == nullptr) return false;
  uint8_t chunk[1 << 16];
  size_t count = 0;
  while ((count = std::fread(chunk, 1, sizeof(chunk), file)) > 0) bytes.insert(bytes.end(), chunk, chunk + count);
  const bool ok = std::ferror(file) == 0;
  std::fclose(file);
  return ok;
}

bool write_file(const std::string& name, const std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(name.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

int main(int argc, char** argv) {
  std::unordered_map<std::string, std::vector<uint8_t>> cache;
  const kiln::FileReader files = [&cache](const std::string& name) -> const std::vector<uint8_t>* {
    const auto found = cache.find(name);
    if (found != cache.end()) return &found->second;
    std::vector<uint8_t> bytes;
    if (!read_file(name, bytes)) return nullptr;
    return &(cache[name] = std::move(bytes));
  };
  const kiln::CommandResult result = kiln::run_command({argv + 1, argv + argc}, files, kiln::builtin_tables());
  std::fwrite(result.err.data(), 1, result.err.size(), stderr);
  std::fwrite(result.out.data(), 1, result.out.size(), stdout);
  int exit_code = result.exit_code;
  for (const auto& [name, bytes] : result.files) {
    if (write_file(name, bytes)) continue;
    std::fprintf(stderr, "error: %s cannot be written\n", name.c_str());
    exit_code = 1;
  }
  return exit_code;
}
