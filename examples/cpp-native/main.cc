// Runs a bundle on inputs that are all 0.5 and prints the largest value of each output: run_bundle MODEL.kiln
#include <algorithm>
#include <cstdio>

#include <tilekiln/runtime.h>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: run_bundle MODEL.kiln\n"), 2;
  tilekiln::Error error;
  const auto model = tilekiln::Model::load_file(argv[1], &error);
  if (!model) return std::fprintf(stderr, "%s: %s\n", error.code.c_str(), error.message.c_str()), 1;

  for (size_t i = 0; i < model->inputs().size(); ++i) {
    if (model->inputs()[i].dtype != tilekiln::DType::kF32) continue;
    std::fill_n(static_cast<float*>(model->input(i)), model->input_bytes(i) / sizeof(float), 0.5f);
  }
  model->run();
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    const tilekiln::TensorInfo& info = model->outputs()[i];
    const auto* values = static_cast<const float*>(model->output(i));
    const size_t count = model->output_bytes(i) / sizeof(float);
    if (info.dtype != tilekiln::DType::kF32 || count == 0) continue;
    const auto* largest = std::max_element(values, values + count);
    std::printf("%s: %zu values, largest %g at %td\n", info.name.c_str(), count, *largest, largest - values);
  }
  return 0;
}
