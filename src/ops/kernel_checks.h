// What the checks of kernels have in common: how operands lie in memory, how large they are, how a refusal is
// said.
#pragma once

#include "ops/kernel.h"

namespace kiln {

// A bundle's step that the kernel refuses. Not inlined: there are many refusals.
[[gnu::noinline]] inline Status corrupt(const char* what) { return {Code::kCorrupt, what}; }

// A KernelDef::check out of a function that gives null, or what is wrong: smaller than one that passes Status
// along.
template <const char* (*kProblem)(const KernelArgs&)>
Status check_by(const KernelArgs& args) {
  const char* what = kProblem(args);
  return what == nullptr ? Status() : corrupt(what);
}

// Number of elements; -1 if a dim is negative or the product reaches 2^31. 0 if any dim is 0.
[[gnu::noinline]] inline int64_t count_elements(const TensorRef& ref) {
  int64_t n = 1;
  bool empty = false;
  bool large = false;
  for (int i = 0; i < ref.rank; ++i) {
    if (ref.dims[i] < 0) return -1;
    if (ref.dims[i] == 0)
      empty = true;
    else if (!large)
      n *= ref.dims[i];
    large = large || n > INT32_MAX;
  }
  if (empty) return 0;
  return large ? -1 : n;
}

inline bool same_dims(const TensorRef& a, const TensorRef& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

// Elements from the start of one row (last axis) to the next, for dense tensors and channel views; 0 for a
// single row.
inline int32_t row_stride(const TensorRef& ref) {
  for (int i = ref.rank - 2; i >= 0; --i) {
    if (ref.dims[i] > 1) return ref.strides[i];
  }
  return 0;
}

// Dense, or a channel view: rows without gaps, all `row_stride` apart.
[[gnu::noinline]] inline bool is_channel_view(const TensorRef& ref) {
  if (ref.rank == 0) return true;
  const int last = ref.rank - 1;
  if (ref.dims[last] > 1 && ref.strides[last] != 1) return false;
  int64_t expected = row_stride(ref);
  if (expected != 0 && expected < ref.dims[last]) return false;
  for (int i = last - 1; i >= 0; --i) {
    if (ref.dims[i] <= 1) continue;
    if (ref.strides[i] != expected) return false;
    expected *= ref.dims[i];
    if (expected > INT32_MAX) expected = -1;  // no int32 stride equals it
  }
  return true;
}

// Every operand is a channel view (dense if `dense`) of fewer than 2^31 elements.
[[gnu::noinline]] inline Status check_layouts(const KernelArgs& args, bool dense_inputs, bool dense_outputs) {
  for (int i = 0; i < args.num_in + args.num_out; ++i) {
    const bool is_input = i < args.num_in;
    const TensorRef& ref = is_input ? args.in[i] : args.out[i - args.num_in];
    if (!ref.present()) continue;
    if (ref.rank > kMaxRank) return corrupt("a tensor has too many dims");
    const int64_t n = count_elements(ref);
    if (n < 0) return corrupt("a tensor is too large");
    if (n == 0) continue;
    if (!is_channel_view(ref)) return corrupt("strides that this kernel does not take");
    if ((is_input ? dense_inputs : dense_outputs) && !ref.is_contiguous()) return corrupt("an operand is not dense");
  }
  return {};
}

inline int item_bytes(const TensorRef& ref) { return static_cast<int>(dtype_bytes(ref.dtype)); }

}  // namespace kiln
