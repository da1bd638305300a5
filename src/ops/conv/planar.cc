// conv_f32_gemm8_planar: the first layer of a model, which reads the image in NCHW order.
//
// For a few lines of the output the lines of the image that they read are interleaved into NHWC order, with zeros for
// the padding, and multiplied from there: a kernel row is then one run in memory, and no window meets a border.
#include <algorithm>
#include <cstring>

#include "cpu/simd.h"
#include "ops/conv/geometry.h"

namespace kiln::ops::conv {
namespace {

// `count` pixels of three planes.
void interleave3(const float* r, const float* g, const float* b, int32_t count, float* out) {
  int32_t i = 0;
  for (; i + 4 <= count; i += 4, out += 12) {
    const v128_t red = wasm_v128_load(r + i);
    const v128_t green = wasm_v128_load(g + i);
    const v128_t blue = wasm_v128_load(b + i);
    const v128_t low = wasm_i32x4_shuffle(red, green, 0, 4, 1, 5);
    const v128_t high = wasm_i32x4_shuffle(red, green, 2, 6, 3, 7);
    const v128_t middle = wasm_i32x4_shuffle(green, blue, 1, 5, 1, 5);
    wasm_v128_store(out, wasm_i32x4_shuffle(low, blue, 0, 1, 4, 2));
    wasm_v128_store(out + 4, wasm_i32x4_shuffle(middle, high, 0, 1, 4, 5));
    wasm_v128_store(out + 8, wasm_i32x4_shuffle(blue, high, 2, 6, 7, 3));
  }
  for (; i < count; ++i, out += 3) {
    out[0] = r[i];
    out[1] = g[i];
    out[2] = b[i];
  }
}

void interleave(const float* planes, int64_t plane, int32_t channels, int32_t count, float* out) {
  if (channels == 1) {
    std::memcpy(out, planes, static_cast<size_t>(count) * sizeof(float));
  } else if (channels == 3) {
    interleave3(planes, planes + plane, planes + 2 * plane, count, out);
  } else {
    for (int32_t c = 0; c < channels; ++c) {
      for (int32_t i = 0; i < count; ++i) out[int64_t{i} * channels + c] = planes[c * plane + i];
    }
  }
}

}  // namespace

void run_planar(const KernelArgs& args, Gemm gemm, char* scratch) {
  const auto& p = args.params_as<ConvParams>();
  const Image x = make_image(args.in[0], false);
  const Image y = make_image(args.out[0], true);
  const int32_t out_height = y.size[1];
  const int32_t out_width = y.size[2];
  const PlanarBlocking blocking = planar_blocking(p, y.n, x.c, out_height, out_width);
  const int64_t plane = int64_t{x.size[1]} * x.size[2];
  const int64_t line_floats = int64_t{blocking.in_width} * x.c;
  const int32_t left = std::min(p.pad_begin[2], blocking.in_width);
  const int32_t inside = std::min(x.size[2], blocking.in_width - left);

  const auto run = [&](int block, int slot) {
    char* own = scratch + static_cast<uint64_t>(slot) * blocking.slot_bytes;
    auto* lines = reinterpret_cast<float*>(own);
    const int32_t image = block / blocking.blocks_of_image;
    const int32_t first = block % blocking.blocks_of_image * blocking.lines;
    const int32_t num_lines = std::min(blocking.lines, out_height - first);
    const int32_t top = first * p.stride[1] - p.pad_begin[1];
    const float* planes = args.in[0].as<float>() + image * plane * x.c;
    for (int32_t i = 0; i < blocking.in_lines; ++i) {
      float* line = lines + i * line_floats;
      const int32_t from = top + i;
      if (from < 0 || from >= x.size[1] || inside <= 0) {
        std::memset(line, 0, static_cast<size_t>(line_floats) * sizeof(float));
        continue;
      }
      const int64_t end = int64_t{left + inside} * x.c;
      std::memset(line, 0, static_cast<size_t>(left) * static_cast<size_t>(x.c) * sizeof(float));
      interleave(planes + int64_t{from} * x.size[2], plane, x.c, inside, line + int64_t{left} * x.c);
      std::memset(line + end, 0, static_cast<size_t>(line_floats - end) * sizeof(float));
    }

    WindowRows window;
    window.x = window.zeros = lines;
    window.pixel_stride = x.c;
    window.height = blocking.in_lines;
    window.width = blocking.in_width;
    window.out_height = num_lines;
    window.out_width = out_width;
    window.kernel_w = p.kernel[2];
    window.stride_h = p.stride[1];
    window.stride_w = p.stride[2];
    window.dilation_h = p.dilation[1];
    window.dilation_w = p.dilation[2];
    window.group_channels = x.c / p.group;
    window.is_copied = blocking.form.is_copied;
    window.is_inner = p.group == 1 && p.dilation[2] == 1;

    const int64_t pixel = (int64_t{image} * out_height + first) * out_width;
    Gemm product = gemm;
    product.m = num_lines * out_width;
    product.row_form = blocking.form;
    product.locate_rows = locate_window_rows;
    product.rows_context = &window;
    product.c += pixel * gemm.c_rows.x_stride;
    product.c_rows = make_plain_rows(product.m, gemm.c_rows.x_stride);
    if (gemm.residual != nullptr) {
      product.residual += pixel * gemm.residual_rows.x_stride;
      product.residual_rows = make_plain_rows(product.m, gemm.residual_rows.x_stride);
    }
    run_gemm(product, &serial_parallel(), own + blocking.input_bytes);
  };
  parallel_for_slots(args.parallel, y.n * blocking.blocks_of_image, blocking.num_slots, run);
}

}  // namespace kiln::ops::conv
