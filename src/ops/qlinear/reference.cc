#include <algorithm>

#include "ops/conv/geometry.h"
#include "ops/matmul/batches.h"
#include "ops/qlinear/qlinear.h"
#include "ops/quantize/quantize.h"

namespace kiln::ops::qlinear {
namespace {

constexpr int32_t kChunk = 64;  // sums that are made together

// 8-bit integers as u8: i8 with its sign bit turned over is the number + 128, its zero point too.
struct Bytes {
  const uint8_t* data = nullptr;
  uint8_t flip = 0;

  explicit Bytes(const TensorRef& ref)
      : data(static_cast<const uint8_t*>(ref.data)), flip(ref.dtype == DType::kI8 ? 0x80 : 0) {}
  [[gnu::always_inline]] int32_t at(int64_t i) const { return data[i] ^ flip; }
};

// Scales or zero points: one, or one a row or column (of all batches, or the same for each).
struct Table {
  const TensorRef* ref;
  int64_t count;

  Table(const KernelArgs& args, Slot slot) : ref(&args.in[slot]), count(ref->present() ? ref->num_elements() : 0) {}
  float scale(int64_t i) const { return static_cast<const float*>(ref->data)[i % count]; }
  // Of data that is read as Bytes.
  int32_t zero(int64_t i, uint8_t flip) const {
    return (count == 0 ? 0 : static_cast<const uint8_t*>(ref->data)[i % count]) ^ flip;
  }
};

// From sums to elements of y.
class Writer {
 public:
  explicit Writer(const KernelArgs& args)
      : y_(args.out[0]), x_(args, kXScale), w_(args, kWScale), scale_(args, kYScale), zero_(args, kYZero) {}

  void put(int64_t to, uint32_t sum, int64_t row, int64_t column) const {
    if (y_.dtype == DType::kI32) {
      y_.as<uint32_t>()[to] = sum;
      return;
    }
    const float scale = x_.scale(row) * w_.scale(column) / scale_.scale(row);
    const int64_t zero = zero_.count == 0 ? 0 : element_as_i64(y_.dtype, zero_.ref->data, row % zero_.count);
    const float value = static_cast<float>(static_cast<int32_t>(sum)) * scale;
    store_i64(y_.dtype, y_.data, to, quantize::round_to_range(value, zero, quantize::integer_range(y_.dtype)));
  }

 private:
  const TensorRef& y_;
  Table x_, w_, scale_, zero_;
};

// Calls `run` with the operands of an ONNX node in slots; -1 for those that it has not.
void run_in_slots(const KernelArgs& args, const int (&inputs)[kNumSlots], KernelFn run) {
  TensorRef in[kNumSlots];
  for (int slot = 0; slot < kNumSlots; ++slot) {
    if (inputs[slot] >= 0 && inputs[slot] < args.num_in) in[slot] = args.in[inputs[slot]];
  }
  KernelArgs placed = args;
  placed.in = in;
  placed.num_in = kNumSlots;
  run(placed);
}

}  // namespace

void run_conv(const KernelArgs& args) {
  const auto& p = args.params_as<conv::ConvParams>();
  const conv::Image x = conv::make_image(args.in[kX], false);
  const conv::Image y = conv::make_image(args.out[0], false);
  const Bytes xs(args.in[kX]);
  const Bytes ws(args.in[kW]);
  const Table w_zeros(args, kWZero);
  const int32_t x_zero = Table(args, kXZero).zero(0, xs.flip);
  const uint32_t* bias = args.in[kBias].present() ? args.in[kBias].as<uint32_t>() : nullptr;
  const Writer writer(args);
  const int32_t group_in = x.c / p.group;
  parallel_for(args.parallel, y.n * y.c, [&](int tile, int) {
    const int32_t n = tile / y.c;
    const int32_t o = tile % y.c;
    const int64_t image = n * x.n_stride + int64_t{o / (y.c / p.group)} * group_in * x.c_stride;
    const int32_t w_zero = w_zeros.zero(o, ws.flip);
    for (int32_t line = 0; line < y.size[0] * y.size[1]; ++line) {
      const int64_t to = n * y.n_stride + o * y.c_stride + int64_t{line} * y.size[2];
      const int64_t first_d = int64_t{line / y.size[1]} * p.stride[0] - p.pad_begin[0];
      const int64_t first_h = int64_t{line % y.size[1]} * p.stride[1] - p.pad_begin[1];
      for (int32_t begin = 0; begin < y.size[2]; begin += kChunk) {
        const int32_t count = std::min(kChunk, y.size[2] - begin);
        uint32_t sums[kChunk];
        for (int32_t j = 0; j < count; ++j) sums[j] = bias != nullptr ? bias[o] : 0;
        int64_t w = int64_t{o} * group_in * p.kernel[0] * p.kernel[1] * p.kernel[2];
        for (int32_t c = 0; c < group_in; ++c) {
          for (int32_t kd = 0; kd < p.kernel[0]; ++kd) {
            for (int32_t kh = 0; kh < p.kernel[1]; ++kh) {
              const int64_t d = first_d + int64_t{kd} * p.dilation[0];
              const int64_t h = first_h + int64_t{kh} * p.dilation[1];
              const bool is_inside = d >= 0 && d < x.size[0] && h >= 0 && h < x.size[1];
              const int64_t row = image + c * x.c_stride + d * x.stride[0] + h * x.stride[1];
              for (int32_t kw = 0; kw < p.kernel[2]; ++kw, ++w) {
                const int32_t weight = ws.at(w) - w_zero;
                int64_t v = int64_t{begin} * p.stride[2] + int64_t{kw} * p.dilation[2] - p.pad_begin[2];
                for (int32_t j = 0; is_inside && j < count; ++j, v += p.stride[2]) {
                  if (v >= 0 && v < x.size[2]) sums[j] += static_cast<uint32_t>((xs.at(row + v) - x_zero) * weight);
                }
              }
            }
          }
        }
        for (int32_t j = 0; j < count; ++j) writer.put(to + begin + j, sums[j], 0, o);
      }
    }
  });
}

void run_matmul(const KernelArgs& args) {
  const auto& p = args.params_as<matmul::MatmulParams>();
  const Bytes xs(args.in[kX]);
  const Bytes ws(args.in[kW]);
  const Table x_zeros(args, kXZero);
  const Table w_zeros(args, kWZero);
  const Writer writer(args);
  const int64_t rows = matmul::num_batches(p) * p.m;
  parallel_for(args.parallel, static_cast<int>(p.n > 0 ? rows : 0), [&](int tile, int) {
    const matmul::MatrixPair pair = matmul::pair_of_batch(p, tile / p.m);
    const int64_t row = pair.a * p.m + tile % p.m;
    const int64_t column = pair.b * p.n;
    const int32_t x_zero = x_zeros.zero(row, xs.flip);
    for (int32_t begin = 0; begin < p.n; begin += kChunk) {
      const int32_t count = std::min(kChunk, p.n - begin);
      uint32_t sums[kChunk] = {};
      int32_t zeros[kChunk];
      for (int32_t j = 0; j < count; ++j) zeros[j] = w_zeros.zero(column + begin + j, ws.flip);
      for (int64_t k = 0; k < p.k; ++k) {
        const int32_t factor = xs.at(row * p.k + k) - x_zero;
        const int64_t from = (pair.b * p.k + k) * p.n + begin;
        for (int32_t j = 0; j < count; ++j) sums[j] += static_cast<uint32_t>(factor * (ws.at(from + j) - zeros[j]));
      }
      for (int32_t j = 0; j < count; ++j) writer.put(int64_t{tile} * p.n + begin + j, sums[j], row, column + begin + j);
    }
  });
}

void qlinear_conv_reference(const KernelArgs& args) { run_in_slots(args, {0, 3, 2, 5, 1, 4, 6, 7, 8}, run_conv); }
void qlinear_matmul_reference(const KernelArgs& args) { run_in_slots(args, {0, 3, 2, 5, 1, 4, 6, 7, -1}, run_matmul); }
void conv_integer_reference(const KernelArgs& args) { run_in_slots(args, {0, 1, 2, 3, -1, -1, -1, -1, -1}, run_conv); }
void matmul_integer_reference(const KernelArgs& args) {
  run_in_slots(args, {0, 1, 2, 3, -1, -1, -1, -1, -1}, run_matmul);
}

}  // namespace kiln::ops::qlinear
