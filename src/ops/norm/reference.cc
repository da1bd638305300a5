#include <cmath>

#include "ops/kernel.h"
#include "ops/norm/norm.h"

namespace kiln::ops::norm {
namespace {

double load(const TensorRef& tensor, int64_t index) { return element_as_f64(tensor.dtype, tensor.data, index); }

void store(const TensorRef& tensor, int64_t index, double value) {
  if (tensor.present()) store_f64(tensor.dtype, tensor.data, index, value);
}

int64_t image_index(const ImageSplit& image, int64_t outer, int64_t channel, int64_t inner) {
  return image.is_nhwc ? (outer * image.inner + inner) * image.channels + channel
                       : (outer * image.channels + channel) * image.inner + inner;
}

struct Statistics {
  double mean = 0;
  double variance = 0;
};

// Of count elements, the i-th at index(i).
template <typename Index>
Statistics measure(const TensorRef& x, int64_t count, Index index) {
  Statistics s;
  for (int64_t i = 0; i < count; ++i) s.mean += load(x, index(i));
  s.mean /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const double distance = load(x, index(i)) - s.mean;
    s.variance += distance * distance;
  }
  s.variance /= static_cast<double>(count);
  return s;
}

}  // namespace

void batch_norm_any(const KernelArgs& args) {
  const auto& p = args.params_as<BatchNormParams>();
  const TensorRef& x = args.in[0];
  const int64_t count = int64_t{p.image.outer} * p.image.inner;
  parallel_for(args.parallel, p.image.channels, [&](int c, int) {
    auto index = [&](int64_t i) { return image_index(p.image, i / p.image.inner, c, i % p.image.inner); };
    Statistics s{load(args.in[3], c), load(args.in[4], c)};
    if (p.training) {
      const Statistics batch = measure(x, count, index);
      const double momentum = p.momentum;
      if (args.num_out > 1) store(args.out[1], c, s.mean * momentum + batch.mean * (1 - momentum));
      if (args.num_out > 2) store(args.out[2], c, s.variance * momentum + batch.variance * (1 - momentum));
      s = batch;
    }
    const double factor = load(args.in[1], c) / std::sqrt(s.variance + p.epsilon);
    for (int64_t i = 0; i < count; ++i) {
      store(args.out[0], index(i), (load(x, index(i)) - s.mean) * factor + load(args.in[2], c));
    }
  });
}

void instance_norm_any(const KernelArgs& args) {
  const auto& p = args.params_as<InstanceNormParams>();
  const TensorRef& x = args.in[0];
  if (x.num_elements() == 0) return;
  parallel_for(args.parallel, p.image.outer * p.image.channels, [&](int tile, int) {
    const int64_t c = tile % p.image.channels;
    auto index = [&](int64_t i) { return image_index(p.image, tile / p.image.channels, c, i); };
    const Statistics s = measure(x, p.image.inner, index);
    const double factor = load(args.in[1], c) / std::sqrt(s.variance + p.epsilon);
    for (int64_t i = 0; i < p.image.inner; ++i) {
      store(args.out[0], index(i), (load(x, index(i)) - s.mean) * factor + load(args.in[2], c));
    }
  });
}

void layer_norm_any(const KernelArgs& args) {
  const auto& p = args.params_as<LayerNormParams>();
  const TensorRef& x = args.in[0];
  if (x.num_elements() == 0) return;
  const bool has_bias = args.num_in > 2 && args.in[2].present();
  parallel_for(args.parallel, p.rows, [&](int row, int) {
    auto index = [&](int64_t i) { return int64_t{row} * p.n + i; };
    const Statistics s = measure(x, p.n, index);
    const double factor = 1 / std::sqrt(s.variance + p.epsilon);
    for (int64_t i = 0; i < p.n; ++i) {
      const double value = (load(x, index(i)) - s.mean) * factor * load(args.in[1], i);
      store(args.out[0], index(i), value + (has_bias ? load(args.in[2], i) : 0));
    }
    if (args.num_out > 1) store(args.out[1], row, s.mean);
    if (args.num_out > 2) store(args.out[2], row, factor);
  });
}

void lrn_any(const KernelArgs& args) {
  const auto& p = args.params_as<LrnParams>();
  const TensorRef& x = args.in[0];
  if (x.num_elements() == 0) return;
  parallel_for(args.parallel, p.image.outer * p.image.channels, [&](int tile, int) {
    const int64_t outer = tile / p.image.channels;
    const int32_t c = tile % p.image.channels;
    int32_t begin, end;
    lrn_window(p, c, &begin, &end);
    for (int64_t i = 0; i < p.image.inner; ++i) {
      double sum = 0;
      for (int32_t k = begin; k < end; ++k) {
        const double value = load(x, image_index(p.image, outer, k, i));
        sum += value * value;
      }
      const int64_t at = image_index(p.image, outer, c, i);
      const double base = p.bias + static_cast<double>(p.alpha) / p.size * sum;
      store(args.out[0], at, load(x, at) / std::pow(base, static_cast<double>(p.beta)));
    }
  });
}

void mean_variance_norm_any(const KernelArgs& args) {
  const auto& p = args.params_as<MeanVarianceNormParams>();
  const TensorRef& x = args.in[0];
  int64_t strides[kMaxRank];
  int64_t counts[2] = {1, 1};  // kept, reduced
  int64_t stride = 1;
  for (int i = x.rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= x.dims[i];
    counts[p.axes_mask >> i & 1] *= x.dims[i];
  }
  // Offset of the linear-th element over the axes whose bit in the mask is `side`.
  auto offset = [&](int side, int64_t linear) {
    int64_t at = 0;
    for (int i = x.rank - 1; i >= 0; --i) {
      if ((p.axes_mask >> i & 1) != side) continue;
      at += linear % x.dims[i] * strides[i];
      linear /= x.dims[i];
    }
    return at;
  };
  if (stride == 0) return;
  parallel_for(args.parallel, static_cast<int>(counts[0]), [&](int tile, int) {
    const int64_t base = offset(0, tile);
    auto index = [&](int64_t i) { return base + offset(1, i); };
    const Statistics s = measure(x, counts[1], index);
    for (int64_t i = 0; i < counts[1]; ++i) {
      store(args.out[0], index(i), (load(x, index(i)) - s.mean) / (std::sqrt(s.variance) + 1e-9));
    }
  });
}

}  // namespace kiln::ops::norm
