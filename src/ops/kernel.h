// What a kernel is to the runtime: a name, a function over plain tensors, and a check that makes hostile bundles
// harmless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/tensor.h"
#include "cpu/parallel.h"

namespace kiln {

// Everything that one step hands to its kernel. Pointers are resolved at load; nothing here allocates.
struct KernelArgs {
  const void* params = nullptr;  // the kernel's params struct, 8-byte aligned
  size_t params_bytes = 0;
  const TensorRef* in = nullptr;  // absent optional operands have dtype kInvalid
  int num_in = 0;
  const TensorRef* out = nullptr;
  int num_out = 0;
  void* scratch = nullptr;  // 64-byte aligned, contents undefined
  size_t scratch_bytes = 0;
  const Parallel* parallel = nullptr;  // never null when a kernel runs
  void* prepared = nullptr;            // what KernelDef::prepare made; 64-byte aligned

  template <typename P>
  const P& params_as() const {
    return *static_cast<const P*>(params);
  }
};

using KernelFn = void (*)(const KernelArgs&);
// Called once when a bundle is loaded, with every pointer but the constants' unset. It must reject any params, dtypes,
// ranks, dims and operand counts for which `run` could read or write out of bounds or divide by zero.
using KernelCheckFn = Status (*)(const KernelArgs&);

struct KernelDef {
  const char* name;  // "<op>_<dtype>_<variant>"; stored in bundles, so a changed meaning needs a new name
  KernelFn run;
  KernelCheckFn check;
  // Operands may be channel views: last axis dense, stride of the axis before it larger than the last dim.
  bool strided_inputs = false;
  bool strided_outputs = false;
  // For kernels that want constant input 1 in another form: made once at load, after `check` has passed. Steps of one
  // kernel whose input 1 is the same bytes share it, so it must depend on nothing but input 1 and its own size.
  size_t (*prepared_bytes)(const KernelArgs&) = nullptr;
  void (*prepare)(const KernelArgs&) = nullptr;  // writes args.prepared
};

// Helpers for checks. `params_are<P>` also fits truncated or oversized parameters.
Status check_operands(const KernelArgs& args, int min_in, int max_in, int num_out);
template <typename P>
Status check_params(const KernelArgs& args) {
  if (args.params_bytes != sizeof(P)) return {Code::kCorrupt, "parameters have the wrong size"};
  return {};
}

// The table of all kernels that this build contains. Explicit: tables are concatenated from ops.def, no static
// initialisers.
class KernelRegistry {
 public:
  static constexpr int kMaxTables = 64;
  void add(std::span<const KernelDef> table);
  const KernelDef* find(const char* name) const;

 private:
  std::span<const KernelDef> tables_[kMaxTables];
  int num_tables_ = 0;
};

// Every folder of ops.def.
const KernelRegistry& builtin_kernels();

}  // namespace kiln
