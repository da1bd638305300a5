// The tilekiln runtime for C++ programs: loads a .kiln bundle and runs it. Needs nothing but this header and
// the library.
//
//   tilekiln::Error error;
//   auto model = tilekiln::Model::load_file("model.kiln", &error);
//   if (!model) { std::fprintf(stderr, "%s\n", error.message.c_str()); return 1; }
//   std::memcpy(model->input(0), pixels, model->input_bytes(0));
//   model->run();
//   const auto* scores = static_cast<const float*>(model->output(0));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tilekiln {

enum class DType : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kU16 = 8,
  kI32 = 9,
  kU32 = 10,
  kI64 = 11,
  kU64 = 12,
  kBool = 13,  // one byte, 0 or 1
};

struct Error {
  std::string code;     // "NOT_A_MODEL", "TRUNCATED", "CORRUPT", "VERSION", "NOT_FOUND", "OUT_OF_MEMORY", …
  std::string message;  // one sentence
  std::string node;     // the model's node that is at fault, or empty
};

// An input or output.
struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::string layout;  // "NCHW", "NHWC", or "" where it has no meaning
};

// A loaded model. Runs on the calling thread; not to be used by two threads at once. Nothing is allocated
// after loading.
class Model {
 public:
  // Null with *error set (if error is not null) where the bytes are no valid bundle. The bytes are copied.
  static std::unique_ptr<Model> load(const void* bundle, size_t bytes, Error* error);
  static std::unique_ptr<Model> load_file(const std::string& path, Error* error);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Profiles are the sets of shapes that the model was compiled for; profile 0 is in use after loading.
  int num_profiles() const;
  int profile() const;
  bool select_profile(int index);  // false if there is no such profile

  // Of the profile in use, in the model's order.
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;

  // Where to write an input before run() and to read an output after it: dense, row-major. An input's
  // contents are undefined after run(); an output is valid until the next run() or select_profile().
  void* input(size_t index);
  const void* output(size_t index) const;
  size_t input_bytes(size_t index) const;
  size_t output_bytes(size_t index) const;

  void run();

  // "task", "labels" (one a line), "preprocess" (JSON), "producer", …; null if there is no such key.
  const char* metadata(const char* key) const;

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilekiln
