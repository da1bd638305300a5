// The plan: what the runtime needs and nothing else — tensors with their places, flat steps, weights, descriptions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace kiln {

// kHalves: f32 weights that the bundle holds as IEEE halves, see store_halves.
enum class Storage : uint8_t { kArena = 0, kWeights = 1, kHalves = 2 };

struct PlanTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;
  int64_t strides[kMaxRank] = {};  // in elements
  Storage storage = Storage::kArena;
  uint64_t offset = 0;  // bytes from the start of the arena, the weights or the expanded halves; 64-byte aligned unless
                        // a view
  uint64_t bytes = 0;   // span from the first to the last element
};

struct PlanStep {
  std::string kernel;
  std::string op;    // for people: "Conv"
  std::string name;  // node name, for errors and profiles
  std::vector<uint8_t> params;
  std::vector<int32_t> inputs;  // indices into tensors; -1 = absent
  std::vector<int32_t> outputs;
  uint64_t scratch_offset = 0;  // in the arena
  uint64_t scratch_bytes = 0;
  int64_t macs = 0;
};

struct PlanIo {
  std::string name;
  int32_t tensor = -1;
  std::string layout;  // "NCHW", "NHWC" or "" where it has no meaning
  // Axis 0 is a batch that may be padded: a row of the outputs depends on its own row of the inputs alone. All batched
  // inputs and outputs of a profile have the same number of rows.
  bool batched = false;
};

// One set of static shapes. All profiles of a plan share the weights.
struct PlanProfile {
  std::vector<PlanTensor> tensors;
  std::vector<PlanStep> steps;
  std::vector<PlanIo> inputs;
  std::vector<PlanIo> outputs;
  uint64_t arena_bytes = 0;
  uint64_t peak_live_bytes = 0;  // largest sum of tensors alive at one step; arena_bytes is at least this
};

struct Plan {
  std::vector<PlanProfile> profiles;
  std::vector<uint8_t> weights;
  std::vector<uint8_t> halves;  // what lies in Storage::kHalves, as halves
  // "producer", "source_sha256", "task", "labels" (one a line), "preprocess" (JSON), and ONNX metadata_props under
  // "onnx.<key>".
  std::map<std::string, std::string> metadata;
};

}  // namespace kiln
