#include <cstring>

#include "cpu/simd.h"
#include "ops/index.h"
#include "ops/kernel_checks.h"
#include "ops/resize/resize.h"

namespace kiln::ops::resize {
namespace {

// Tables are constants: their contents are checked once, at load.
bool is_table(const TensorRef& ref, DType dtype, int64_t length) {
  return ref.present() && ref.dtype == dtype && ref.rank == 1 && ref.dims[0] == length && ref.is_contiguous() &&
         (length == 0 || ref.data != nullptr);
}

bool indices_fit(const int32_t* indices, int64_t count, int64_t low, int64_t dim) {
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] < low || indices[i] >= dim) return false;
  }
  return true;
}

// --- nearest: rows (last axis) are copied or gathered ---

template <typename T>
void gather_row(const char* from, char* to, const int32_t* indices, int64_t width, const uint8_t* value) {
  T outside;
  std::memcpy(&outside, value, sizeof(T));
  for (int64_t i = 0; i < width; ++i) {
    reinterpret_cast<T*>(to)[i] = indices[i] < 0 ? outside : reinterpret_cast<const T*>(from)[indices[i]];
  }
}

void gather_items(int item, const char* from, char* to, const int32_t* indices, int64_t width, const uint8_t* value) {
  switch (item) {
    case 1:
      gather_row<uint8_t>(from, to, indices, width, value);
      break;
    case 2:
      gather_row<uint16_t>(from, to, indices, width, value);
      break;
    case 4:
      gather_row<uint32_t>(from, to, indices, width, value);
      break;
    default:
      gather_row<uint64_t>(from, to, indices, width, value);
      break;
  }
}

void resize_nearest(const KernelArgs& args) {
  const auto& p = args.params_as<NearestParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int item = item_bytes(x);
  const int last = y.rank - 1;
  const int32_t* tables[kMaxRank];
  const int32_t* table = args.in[1].as<int32_t>();
  for (int i = 0; i < y.rank; ++i) {
    tables[i] = table;
    table += y.dims[i];
  }
  const int64_t width = y.dims[last];
  bool straight = x.dims[last] == width;
  for (int64_t i = 0; i < width; ++i) straight = straight && tables[last][i] == i;

  const int64_t rows = y.num_elements() / width;
  int64_t rows_per_tile = 32 * 1024 / (width * item);
  if (rows_per_tile < 1) rows_per_tile = 1;
  parallel_for(args.parallel, static_cast<int>((rows + rows_per_tile - 1) / rows_per_tile), [&](int tile, int) {
    const int64_t end = (tile + 1) * rows_per_tile < rows ? (tile + 1) * rows_per_tile : rows;
    for (int64_t row = tile * rows_per_tile; row < end; ++row) {
      int64_t rest = row;
      int64_t in_offset = 0;
      int64_t out_offset = 0;
      bool inside = true;
      for (int i = last - 1; i >= 0; --i) {
        const int64_t at = rest % y.dims[i];
        rest /= y.dims[i];
        inside = inside && tables[i][at] >= 0;
        in_offset += static_cast<int64_t>(tables[i][at]) * x.strides[i];
        out_offset += at * y.strides[i];
      }
      char* to = mutable_item_at(y, out_offset);
      if (!inside) {
        for (int64_t i = 0; i < width; ++i) std::memcpy(to + i * item, p.value, static_cast<size_t>(item));
      } else if (straight) {
        std::memcpy(to, item_at(x, in_offset), static_cast<size_t>(width * item));
      } else {
        gather_items(item, item_at(x, in_offset), to, tables[last], width, p.value);
      }
    }
  });
}

Status check_nearest(const KernelArgs& args) {
  KILN_TRY(check_params<NearestParams>(args));
  KILN_TRY(check_operands(args, 2, 2, 1));
  KILN_TRY(check_layouts(args, false, false));
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank != y.rank || x.rank == 0) return corrupt("resize changes dtype or rank");
  int64_t length = 0;
  for (int i = 0; i < y.rank; ++i) length += y.dims[i];
  if (!is_table(args.in[1], DType::kI32, length)) return corrupt("resize: index table");
  const int32_t* table = args.in[1].as<int32_t>();
  for (int i = 0; i < y.rank; ++i) {
    if (!indices_fit(table, y.dims[i], -1, x.dims[i])) return corrupt("resize: index outside the input");
    table += y.dims[i];
  }
  return {};
}

// --- linear on axes 1 and 2, vectors of channels ---

// out = top * (1 - v) + bottom * v with top and bottom mixed of two pixels each.
struct Corners {
  const float* x[4];  // top left, top right, bottom left, bottom right
  float w[4];         // left, right, top, bottom
};

void mix_pixel(const Corners& p, int64_t channels, float* to) {
  const v128_t left = wasm_f32x4_splat(p.w[0]);
  const v128_t right = wasm_f32x4_splat(p.w[1]);
  const v128_t top = wasm_f32x4_splat(p.w[2]);
  const v128_t bottom = wasm_f32x4_splat(p.w[3]);
  int64_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    const v128_t a = f32x4_madd(wasm_v128_load(p.x[1] + c), right, wasm_f32x4_mul(wasm_v128_load(p.x[0] + c), left));
    const v128_t b = f32x4_madd(wasm_v128_load(p.x[3] + c), right, wasm_f32x4_mul(wasm_v128_load(p.x[2] + c), left));
    wasm_v128_store(to + c, f32x4_madd(b, bottom, wasm_f32x4_mul(a, top)));
  }
  for (; c < channels; ++c) {
    const float a = f32_madd(p.x[1][c], p.w[1], p.x[0][c] * p.w[0]);
    const float b = f32_madd(p.x[3][c], p.w[1], p.x[2][c] * p.w[0]);
    to[c] = f32_madd(b, p.w[3], a * p.w[2]);
  }
}

void resize_linear_nhwc(const KernelArgs& args) {
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const int32_t* row_index = args.in[1].as<int32_t>();
  const float* row_weight = args.in[2].as<float>();
  const int32_t* column_index = row_index + 2 * int64_t{y.dims[1]};
  const float* column_weight = row_weight + 2 * int64_t{y.dims[1]};
  parallel_for(args.parallel, y.dims[0] * y.dims[1], [&](int tile, int) {
    const int64_t h = tile % y.dims[1];
    const int64_t n = tile / y.dims[1];
    const float* image = x.as<float>() + n * x.strides[0];
    const float* top = image + static_cast<int64_t>(row_index[2 * h]) * x.strides[1];
    const float* bottom = image + static_cast<int64_t>(row_index[2 * h + 1]) * x.strides[1];
    float* to = y.as<float>() + n * y.strides[0] + h * y.strides[1];
    for (int64_t w = 0; w < y.dims[2]; ++w) {
      const int64_t left = static_cast<int64_t>(column_index[2 * w]) * x.strides[2];
      const int64_t right = static_cast<int64_t>(column_index[2 * w + 1]) * x.strides[2];
      const Corners corners = {
          {top + left, top + right, bottom + left, bottom + right},
          {column_weight[2 * w], column_weight[2 * w + 1], row_weight[2 * h], row_weight[2 * h + 1]}};
      mix_pixel(corners, y.dims[3], to + w * y.strides[2]);
    }
  });
}

Status check_linear_nhwc(const KernelArgs& args) {
  KILN_TRY(check_operands(args, 3, 3, 1));
  KILN_TRY(check_layouts(args, false, false));
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != DType::kF32 || y.dtype != DType::kF32 || x.rank != 4 || y.rank != 4 || x.dims[0] != y.dims[0] ||
      x.dims[3] != y.dims[3]) {
    return corrupt("resize: dtype or dims");
  }
  const int64_t rows = 2 * int64_t{y.dims[1]};
  const int64_t columns = 2 * int64_t{y.dims[2]};
  if (!is_table(args.in[1], DType::kI32, rows + columns) || !is_table(args.in[2], DType::kF32, rows + columns)) {
    return corrupt("resize: tables");
  }
  const int32_t* table = args.in[1].as<int32_t>();
  if (!indices_fit(table, rows, 0, x.dims[1]) || !indices_fit(table + rows, columns, 0, x.dims[2])) {
    return corrupt("resize: index outside the input");
  }
  return {};
}

// --- anything else: one axis after the other ---

// out[o, j, i] = sum_t weight[j, t] * in[o, index[j, t], i]
struct Pass {
  int64_t outer, in_dim, out_dim, inner, taps;
  const int32_t* index;  // (out_dim, taps)
  const float* weight;   // (out_dim, taps)
};

void run_pass(const Parallel* parallel, const Pass& p, const float* in, float* out, float extrapolation) {
  const int64_t lines = p.outer * p.out_dim;
  int64_t lines_per_tile = 8 * 1024 / (p.inner * p.taps);
  if (lines_per_tile < 1) lines_per_tile = 1;
  parallel_for(parallel, static_cast<int>((lines + lines_per_tile - 1) / lines_per_tile), [&](int tile, int) {
    const int64_t end = (tile + 1) * lines_per_tile < lines ? (tile + 1) * lines_per_tile : lines;
    for (int64_t line = tile * lines_per_tile; line < end; ++line) {
      const int64_t j = line % p.out_dim;
      const float* from = in + line / p.out_dim * p.in_dim * p.inner;
      const int32_t* index = p.index + j * p.taps;
      const float* weight = p.weight + j * p.taps;
      float* to = out + line * p.inner;
      int64_t i = 0;
      if (index[0] < 0) {
        for (; i < p.inner; ++i) to[i] = extrapolation;
      }
      for (; i + 4 <= p.inner; i += 4) {
        v128_t sum = wasm_f32x4_splat(0.0f);
        for (int64_t t = 0; t < p.taps; ++t) {
          sum = f32x4_madd(wasm_v128_load(from + index[t] * p.inner + i), wasm_f32x4_splat(weight[t]), sum);
        }
        wasm_v128_store(to + i, sum);
      }
      for (; i < p.inner; ++i) {
        float sum = 0;
        for (int64_t t = 0; t < p.taps; ++t) sum = f32_madd(from[index[t] * p.inner + i], weight[t], sum);
        to[i] = sum;
      }
    }
  });
}

// Elements of the two buffers that the passes need, from dims and parameters.
int64_t buffer_elements(const SeparableParams& p, const TensorRef& x, const TensorRef& y) {
  const bool is_f32 = x.dtype == DType::kF32;
  TensorRef stage = x;
  int64_t largest = is_f32 ? 0 : count_elements(stage);
  for (int i = 0; i < p.num_passes; ++i) {
    stage.dims[p.axis[i]] = y.dims[p.axis[i]];
    const int64_t n = count_elements(stage);
    if (n < 0) return -1;
    if ((!is_f32 || i + 1 < p.num_passes) && n > largest) largest = n;
  }
  return largest;
}

void resize_separable(const KernelArgs& args) {
  const auto& p = args.params_as<SeparableParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (y.num_elements() == 0) return;
  const bool is_f32 = x.dtype == DType::kF32;
  const int64_t largest = buffer_elements(p, x, y);
  float* buffers[2] = {static_cast<float*>(args.scratch), static_cast<float*>(args.scratch) + largest};
  const float* from = x.as<float>();
  if (!is_f32) {
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      buffers[0][i] = static_cast<float>(element_as_f64(x.dtype, x.data, i));
    }
    from = buffers[0];
  }
  TensorRef stage = x;
  Pass pass;
  pass.index = args.in[1].as<int32_t>();
  pass.weight = args.in[2].as<float>();
  for (int i = 0; i < p.num_passes; ++i) {
    const int axis = p.axis[i];
    pass.outer = dims_product(stage, 0, axis);
    pass.in_dim = stage.dims[axis];
    pass.out_dim = y.dims[axis];
    pass.inner = dims_product(stage, axis + 1, stage.rank);
    pass.taps = p.taps[i];
    float* to = is_f32 && i + 1 == p.num_passes ? y.as<float>() : buffers[from == buffers[0] ? 1 : 0];
    run_pass(args.parallel, pass, from, to, p.extrapolation);
    from = to;
    stage.dims[axis] = y.dims[axis];
    pass.index += pass.out_dim * pass.taps;
    pass.weight += pass.out_dim * pass.taps;
  }
  if (!is_f32) {
    for (int64_t i = 0; i < y.num_elements(); ++i) store_f64(y.dtype, y.data, i, from[i]);
  }
}

Status check_separable(const KernelArgs& args) {
  KILN_TRY(check_params<SeparableParams>(args));
  KILN_TRY(check_operands(args, 3, 3, 1));
  KILN_TRY(check_layouts(args, true, true));
  const auto& p = args.params_as<SeparableParams>();
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  if (x.dtype != y.dtype || x.rank != y.rank) return corrupt("resize changes dtype or rank");
  if (p.num_passes < 1 || p.num_passes > x.rank) return corrupt("resize: number of passes");
  TensorRef changed = x;
  bool seen[kMaxRank] = {};
  int64_t length = 0;
  for (int i = 0; i < p.num_passes; ++i) {
    const int32_t axis = p.axis[i];
    if (axis < 0 || axis >= x.rank || seen[axis] || p.taps[i] < 1) return corrupt("resize: parameters");
    seen[axis] = true;
    changed.dims[axis] = y.dims[axis];
    length += int64_t{y.dims[axis]} * p.taps[i];
  }
  if (!same_dims(changed, y)) return corrupt("resize: dims do not match");
  if (count_elements(x) == 0 && count_elements(y) > 0) return corrupt("resize: nothing to resize");
  if (!is_table(args.in[1], DType::kI32, length) || !is_table(args.in[2], DType::kF32, length)) {
    return corrupt("resize: tables");
  }
  const int32_t* table = args.in[1].as<int32_t>();
  for (int i = 0; i < p.num_passes; ++i) {
    const int32_t axis = p.axis[i];
    for (int64_t j = 0; j < y.dims[axis]; ++j, table += p.taps[i]) {
      // Either the extrapolation value or taps that are all inside.
      if (table[0] != -1 && !indices_fit(table, p.taps[i], 0, x.dims[axis])) {
        return corrupt("resize: index outside the input");
      }
    }
  }
  const int64_t largest = buffer_elements(p, x, y);
  if (largest < 0 || args.scratch_bytes < static_cast<uint64_t>(largest) * 2 * sizeof(float)) {
    return corrupt("resize: scratch is too small");
  }
  return {};
}

}  // namespace

std::span<const KernelDef> kernels() {
  static constexpr KernelDef kKernels[] = {
      {"resize_nearest", resize_nearest, check_nearest, true, true},
      {"resize_f32_linear_nhwc", resize_linear_nhwc, check_linear_nhwc, true, true},
      {"resize_separable", resize_separable, check_separable, false, false},
  };
  return kKernels;
}

}  // namespace kiln::ops::resize
