#include <cstring>

#include "cpu/broadcast.h"
#include "ops/kernel_checks.h"
#include "ops/where/where.h"

namespace kiln::ops::where {
namespace {

template <typename T>
void where_block(const KernelArgs& args, const LoopBlock& block) {
  const uint8_t* condition = args.in[0].as<uint8_t>();
  const T* a = args.in[1].as<T>();
  const T* b = args.in[2].as<T>();
  T* y = args.out[0].as<T>();
  for (int64_t r = 0; r < block.rows; ++r) {
    int64_t at[kMaxLoopOperands];
    for (int k = 0; k < kMaxLoopOperands; ++k) at[k] = block.offset[k] + r * block.row_stride[k];
    for (int64_t i = 0; i < block.n; ++i) {
      y[at[0] + i * block.stride[0]] =
          condition[at[1] + i * block.stride[1]] != 0 ? a[at[2] + i * block.stride[2]] : b[at[3] + i * block.stride[3]];
    }
  }
}

void where_any(const KernelArgs& args) {
  const TensorRef* const operands[] = {&args.out[0], &args.in[0], &args.in[1], &args.in[2]};
  const size_t item = dtype_bytes(args.out[0].dtype);
  for_each_block(make_broadcast_loop(operands, 4), args.parallel, [&](const LoopBlock& block) {
    switch (item) {
      case 1:
        return where_block<uint8_t>(args, block);
      case 2:
        return where_block<uint16_t>(args, block);
      case 4:
        return where_block<uint32_t>(args, block);
      default:
        return where_block<uint64_t>(args, block);
    }
  });
}

const char* where_problem(const KernelArgs& args) {
  if (args.params_bytes != 0 || args.num_in != 3 || args.num_out != 1) return "where_any takes three inputs";
  if (const char* what = layout_problem(args.out[0], true)) return what;
  for (int i = 0; i < 3; ++i) {
    if (const char* what = layout_problem(args.in[i], true)) return what;
    if (const char* what = broadcast_problem(args.in[i], args.out[0])) return what;
    if (args.in[i].dtype != (i == 0 ? DType::kBool : args.out[0].dtype)) return "where_any: dtypes do not match";
  }
  return nullptr;
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"where_any", where_any, check_by<where_problem>, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::where
