// A loaded bundle, ready to run. Load validates every byte; run() neither allocates nor fails half way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "ops/kernel.h"

namespace kiln {

struct IoInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<int64_t> shape;
  std::string layout;    // "NCHW", "NHWC" or ""
  bool batched = false;  // axis 0 is a batch that may be padded
};

struct StepInfo {
  const char* op;
  const char* name;
  const char* kernel;
  int64_t macs;
};

struct SessionMemory {
  uint64_t weights_bytes = 0;  // as the bundle holds them
  uint64_t arena_bytes = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t prepared_bytes = 0;  // weights in another form, made at load: halves expanded, or what kernels prepare
};

class Session {
 public:
  // Takes the bundle's bytes, which must be 64-byte aligned and stay alive and unchanged as long as the session:
  // weights are used in place. `parallel` may be null (one thread).
  static Result<std::unique_ptr<Session>> load(std::span<const uint8_t> bundle, const KernelRegistry& kernels,
                                               const Parallel* parallel = nullptr);
  ~Session();

  int num_profiles() const;
  int profile() const;  // the one in use; 0 after load
  // Makes another profile current. The arena is allocated once for the largest; tensors' contents are undefined after.
  Status select_profile(int index);

  // IO of a profile, in the model's order.
  const std::vector<IoInfo>& inputs(int profile_index) const;
  const std::vector<IoInfo>& outputs(int profile_index) const;
  // Where the current profile's input is written before run() and its output read after: dense, row-major. An output is
  // valid until the next run; an input's contents are undefined after a run.
  TensorRef input(int index);
  TensorRef output(int index);

  void run();

  // Stepwise running, for cancelling and profiling between steps: run_steps(begin, end) with 0 <= begin <= end <=
  // num_steps().
  int num_steps() const;
  StepInfo step(int index) const;
  void run_steps(int begin, int end);

  SessionMemory memory() const;
  // Metadata by key ("task", "labels", "preprocess", "producer", "source_sha256", "onnx.names", …).
  int num_metadata() const;
  const char* metadata_key(int index) const;
  const char* metadata_value(int index) const;
  const char* metadata(const char* key) const;  // null if absent

 private:
  Session();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
