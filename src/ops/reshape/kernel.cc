#include <cstring>

#include "ops/kernel_checks.h"

namespace kiln::ops::reshape {
namespace {

// Runs of a channel view: `rows` runs of `row_bytes`, `pitch` bytes apart. A dense tensor is one run.
struct Runs {
  int64_t row_bytes;
  int64_t pitch;

  explicit Runs(const TensorRef& ref, int64_t total) {
    const int64_t item = item_bytes(ref);
    const bool dense = ref.is_contiguous();
    row_bytes = dense ? total : ref.dims[ref.rank - 1] * item;
    pitch = dense ? total : row_stride(ref) * item;
  }
};

// Copies both sides' elements in order, a piece at a time that is dense on both.
void run(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t total = x.num_elements() * item_bytes(x);
  if (total == 0) return;
  const Runs from(x, total);
  const Runs to(y, total);
  constexpr int64_t kTileBytes = 256 * 1024;
  parallel_for(args.parallel, static_cast<int>((total + kTileBytes - 1) / kTileBytes), [&](int tile, int) {
    int64_t at = tile * kTileBytes;
    const int64_t end = at + kTileBytes < total ? at + kTileBytes : total;
    while (at < end) {
      const int64_t from_row = at / from.row_bytes;
      const int64_t to_row = at / to.row_bytes;
      const int64_t from_at = at - from_row * from.row_bytes;
      const int64_t to_at = at - to_row * to.row_bytes;
      int64_t n = end - at;
      if (n > from.row_bytes - from_at) n = from.row_bytes - from_at;
      if (n > to.row_bytes - to_at) n = to.row_bytes - to_at;
      std::memcpy(static_cast<char*>(y.data) + to_row * to.pitch + to_at,
                  static_cast<const char*>(x.data) + from_row * from.pitch + from_at, static_cast<size_t>(n));
      at += n;
    }
  });
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_operands(args, 1, 1, 1));
  KILN_TRY(check_layouts(args, false, false));
  if (args.in[0].dtype != args.out[0].dtype || count_elements(args.in[0]) != count_elements(args.out[0])) {
    return corrupt("copy changes the dtype or the number of elements");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"copy", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::reshape
