#include <cstring>

#include "ops/index.h"
#include "ops/kernel_checks.h"
#include "ops/pad/pad.h"

namespace kiln::ops::pad {
namespace {

void fill(char* to, int64_t count, const uint8_t* value, int item) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * item, value, static_cast<size_t>(item));
}

void fill_row(char* to, int64_t count, const uint8_t* value, int item) {
  switch (item) {  // literal sizes, so that the copy is one store
    case 1:
      std::memset(to, value[0], static_cast<size_t>(count));
      break;
    case 2:
      fill(to, count, value, 2);
      break;
    case 4:
      fill(to, count, value, 4);
      break;
    default:
      fill(to, count, value, 8);
      break;
  }
}

// A row is the last axis: whatever is copied straight, with pads before and after.
void run(const KernelArgs& args) {
  const auto& p = args.params_as<PadParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  const int64_t n = y.num_elements();
  if (n == 0) return;
  const int item = item_bytes(y);
  uint8_t value[8];
  std::memcpy(value, p.value, 8);
  if (args.num_in > 1 && args.in[1].present()) std::memcpy(value, args.in[1].data, static_cast<size_t>(item));
  const auto mode = static_cast<PadMode>(p.mode);
  if (y.rank == 0) {
    std::memcpy(y.data, x.data, static_cast<size_t>(item));
    return;
  }
  const int last = y.rank - 1;
  const int64_t width = y.dims[last];
  const int64_t in_width = x.dims[last];
  // [left, right) of an output row has a straight source.
  int64_t left = p.begin[last] > 0 ? p.begin[last] : 0;
  int64_t right = p.begin[last] + in_width;
  if (left > width) left = width;
  if (right > width) right = width;
  if (right < left) right = left;

  const int64_t rows = n / width;
  int64_t rows_per_tile = 32 * 1024 / (width * item);
  if (rows_per_tile < 1) rows_per_tile = 1;
  const int tiles = static_cast<int>((rows + rows_per_tile - 1) / rows_per_tile);
  parallel_for(args.parallel, tiles, [&](int tile, int) {
    const int64_t end = (tile + 1) * rows_per_tile < rows ? (tile + 1) * rows_per_tile : rows;
    for (int64_t row = tile * rows_per_tile; row < end; ++row) {
      int64_t rest = row;
      int64_t in_offset = 0;
      int64_t out_offset = 0;
      bool inside = true;
      for (int i = last - 1; i >= 0; --i) {
        const int64_t at = rest % y.dims[i];
        rest /= y.dims[i];
        const int64_t source = pad_source(mode, at, p.begin[i], x.dims[i]);
        inside = inside && source >= 0;
        in_offset += source * x.strides[i];
        out_offset += at * y.strides[i];
      }
      char* to = mutable_item_at(y, out_offset);
      if (!inside) {
        fill_row(to, width, value, item);
        continue;
      }
      const char* from = item_at(x, in_offset);
      if (mode == PadMode::kConstant) {
        fill_row(to, left, value, item);
        fill_row(to + right * item, width - right, value, item);
      } else {
        for (int64_t i = 0; i < width; i = i + 1 == left ? right : i + 1) {
          const int64_t source = pad_source(mode, i, p.begin[last], in_width);
          std::memcpy(to + i * item, from + source * item, static_cast<size_t>(item));
        }
      }
      if (right > left) {
        std::memcpy(to + left * item, from + (left - p.begin[last]) * item, static_cast<size_t>((right - left) * item));
      }
    }
  });
}

Status check(const KernelArgs& args) {
  KILN_TRY(check_params<PadParams>(args));
  KILN_TRY(check_operands(args, 1, 2, 1));
  KILN_TRY(check_layouts(args, false, false));
  const auto& p = args.params_as<PadParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank != y.rank) return corrupt("pad changes dtype or rank");
  if (args.num_in > 1 && args.in[1].present() && (args.in[1].dtype != y.dtype || count_elements(args.in[1]) != 1)) {
    return corrupt("pad: the constant is not one element of the tensor's dtype");
  }
  if (p.mode < 0 || p.mode > 3) return corrupt("pad: unknown mode");
  if (count_elements(y) == 0) return {};
  for (int i = 0; i < y.rank; ++i) {
    if (p.mode != 0 && x.dims[i] == 0) return corrupt("pad: nothing to repeat");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {{"pad", run, check, true, true}};
  return kKernels;
}

}  // namespace kiln::ops::pad
