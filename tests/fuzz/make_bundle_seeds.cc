// Writes small bundles for the fuzzer to start from: make_bundle_seeds OUT_DIR [ONNX_FILE…]. One for a few
// graphs of its own, and one for each ONNX file that compiles to a small bundle (the ONNX node vectors bring
// in every kernel).
#include <cstdio>
#include <filesystem>
#include <string>

#include "bundle/write.h"
#include "compile/compile.h"
#include "graph/text.h"
#include "plan/halves.h"
#include "plan/make_plan.h"
#include "plan/merge_plans.h"

namespace {

constexpr size_t kLargestSeed = 16 * 1024;

constexpr const char* kGraphs[] = {
    R"(graph "softmax" opset 13
input %x: f32[2, 5]
%y: f32[2, 5] = Softmax(%x) axis=1
output %y)",
    R"(graph "chain" opset 13
input %x: f32[1, 2, 3, 4]
const %c: f32[4] = {1, 2, 3, 4}
%a: f32[1, 2, 3, 4] = Add(%x, %c)
%b: f32[1, 2, 3, 4] = Relu(%a)
%d: f32[1, 2, 3, 8] = Concat(%a, %b) axis=3
%e: f32[1, 2, 8, 3] = Transpose(%d) perm=[0, 1, 3, 2]
output %e
output %x)",
    R"(graph "product" opset 13
input %x: f32[2, 20]
const %w: f32[20, 16] = random(1)
%y: f32[2, 16] = MatMul(%x, %w)
output %y)",
};

bool write_file(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

std::vector<uint8_t> read_file(const char* path) {
  std::vector<uint8_t> bytes;
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return bytes;
  uint8_t block[4096];
  for (size_t got; (got = std::fread(block, 1, sizeof(block), file)) > 0;)
    bytes.insert(bytes.end(), block, block + got);
  std::fclose(file);
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: make_bundle_seeds OUT_DIR [ONNX_FILE...]\n");
    return 2;
  }
  const std::string out = argv[1];
  std::filesystem::create_directories(out);
  size_t written = 0;
  const auto add = [&](const std::vector<uint8_t>& bundle) {
    if (bundle.size() > kLargestSeed) return;
    written += write_file(out + "/seed" + std::to_string(written) + ".kiln", bundle);
  };
  for (const char* text : kGraphs) {
    const auto graph = kiln::parse_graph(text);
    if (!graph.ok()) {
      std::fprintf(stderr, "make_bundle_seeds: %s\n", graph.status().message().c_str());
      return 1;
    }
    auto plan = kiln::make_plan(graph.value(), kiln::builtin_ops());
    if (!plan.ok()) {
      std::fprintf(stderr, "make_bundle_seeds: %s\n", plan.status().message().c_str());
      return 1;
    }
    add(kiln::write_bundle(plan.value()));
    const auto twice = kiln::merge_plans({plan.value(), plan.value()});
    if (twice.ok()) add(kiln::write_bundle(twice.value()));
    kiln::store_halves(plan.value());
    if (!plan.value().halves.empty()) add(kiln::write_bundle(plan.value()));
  }
  for (int i = 2; i < argc; ++i) {
    const std::vector<uint8_t> model = read_file(argv[i]);
    kiln::CompileResult compiled;
    const kiln::Status status = kiln::compile_model(
        model, [](const std::string&) { return nullptr; }, kiln::builtin_tables(), {}, compiled);
    if (status.ok()) add(compiled.bundle);
  }
  std::printf("%zu bundle seeds in %s\n", written, out.c_str());
  return written > 0 ? 0 : 1;
}
