// Reads a bundle: any bytes in; out comes a checked, read-only view, or an error that says what is wrong with
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/tensor.h"
#include "plan/plan.h"

namespace kiln {

namespace schema {
struct Program;
struct Tensor;
}  // namespace schema

// Points into the bundle's bytes.
struct BundleView {
  const schema::Program* program = nullptr;
  std::span<const uint8_t> weights;
  std::span<const uint8_t> halves;  // f32 weights as IEEE halves

  uint64_t expanded_bytes() const { return halves.size() / 2 * sizeof(float); }
};

// The bytes must be 64-byte aligned and outlive the view. Errors: kNotAModel (HTML, git-LFS pointer, ONNX,
// anything else), kTruncated (says how many bytes are missing), kVersion, kCorrupt. What a view guarantees:
//   - tensors: a known dtype; rank <= 8; dims >= 0; the product of dims that are not 0 < 2^31; strides such
//   that no two
//     elements meet; the whole span within arena, weights or expanded halves and aligned to the dtype; f32 in halves
//   - steps: kernel and operand indices in range, outputs in the arena and apart from inputs, from scratch
//   and from each
//     other, scratch within the arena and 64-byte aligned, MACs >= 0
//   - inputs and outputs: dense tensors; inputs in the arena; arena_bytes <= 2^31
// Kernel names, parameters and operand shapes are the session's to check.
Result<BundleView> read_bundle(std::span<const uint8_t> bytes);

// Dims and strides of a checked tensor; data stays null. Dense tensors get row-major strides even where a dim
// is 1.
TensorRef read_tensor(const schema::Tensor& tensor);
// The bytes from a tensor's first to its last element; 0 if it has none.
uint64_t span_bytes(const TensorRef& tensor);

// A copy as a plan, for printing and for tools.
Plan unpack_bundle(const BundleView& bundle);

}  // namespace kiln
