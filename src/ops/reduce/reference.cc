#include <cmath>
#include <limits>

#include "ops/kernel.h"
#include "ops/reduce/reduce.h"

namespace kiln::ops::reduce {
namespace {

// An accumulator in double for floats and in wrapping 64-bit integers otherwise.
struct Sum {
  double f64 = 0;
  int64_t i64 = 0;
};

// The highest or lowest value of an integer dtype, as int64 bits.
int64_t integer_limit(DType dtype, bool highest) {
  if (dtype == DType::kBool) return highest;
  const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  if (is_unsigned(dtype)) return highest ? static_cast<int64_t>(UINT64_MAX >> (64 - bits)) : 0;
  const int64_t max = INT64_MAX >> (64 - bits);
  return highest ? max : -max - 1;
}

Sum start(ReduceOp op, DType dtype) {
  const bool by_bits = is_integer(dtype) || dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kMax:
      return {-std::numeric_limits<double>::infinity(), by_bits ? integer_limit(dtype, false) : 0};
    case ReduceOp::kMin:
      return {std::numeric_limits<double>::infinity(), by_bits ? integer_limit(dtype, true) : 0};
    case ReduceOp::kProd:
      return {1, 1};
    default:
      return {};
  }
}

bool less(int64_t a, int64_t b, bool as_u64) {
  return as_u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

void add_element(ReduceOp op, double x, int64_t i, bool as_u64, Sum& sum) {
  const uint64_t ui = static_cast<uint64_t>(i);
  const uint64_t us = static_cast<uint64_t>(sum.i64);
  switch (op) {
    case ReduceOp::kMax:
      sum.f64 = sum.f64 > x || std::isnan(sum.f64) ? sum.f64 : x;
      sum.i64 = less(sum.i64, i, as_u64) ? i : sum.i64;
      break;
    case ReduceOp::kMin:
      sum.f64 = sum.f64 < x || std::isnan(sum.f64) ? sum.f64 : x;
      sum.i64 = less(i, sum.i64, as_u64) ? i : sum.i64;
      break;
    case ReduceOp::kProd:
      sum.f64 *= x;
      sum.i64 = static_cast<int64_t>(us * ui);
      break;
    case ReduceOp::kL1:
      sum.f64 += std::fabs(x);
      sum.i64 = static_cast<int64_t>(i < 0 && !as_u64 ? us - ui : us + ui);
      break;
    case ReduceOp::kL2:
    case ReduceOp::kSumSquare:
      sum.f64 += x * x;
      sum.i64 = static_cast<int64_t>(us + ui * ui);
      break;
    default:  // kSum, kMean, kLogSum; kLogSumExp comes shifted and exponentiated
      sum.f64 += x;
      sum.i64 = static_cast<int64_t>(us + ui);
      break;
  }
}

// The axes of a dense tensor apart: those kept and those reduced, with their strides.
struct Axes {
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};
  int64_t count = 1;

  int64_t offset(int64_t linear) const {
    int64_t at = 0;
    for (int i = rank - 1; i >= 0; --i) {
      at += linear % dims[i] * strides[i];
      linear /= dims[i];
    }
    return at;
  }
};

}  // namespace

// L2, LogSum and LogSumExp of integers are computed in double.
void reduce_any(const KernelArgs& args) {
  const auto& p = args.params_as<ReduceParams>();
  const auto op = static_cast<ReduceOp>(p.op);
  const TensorRef& x = args.in[0];
  const TensorRef& y = args.out[0];
  Axes axes[2];  // kept, reduced
  int64_t stride = 1;
  for (int i = x.rank - 1; i >= 0; --i) {
    Axes& side = axes[p.axes_mask >> i & 1];
    for (int k = side.rank; k > 0; --k) {
      side.dims[k] = side.dims[k - 1];
      side.strides[k] = side.strides[k - 1];
    }
    side.dims[0] = x.dims[i];
    side.strides[0] = stride;
    side.count *= x.dims[i];
    ++side.rank;
    stride *= x.dims[i];
  }
  const Axes& kept = axes[0];
  const Axes& reduced = axes[1];
  const bool as_u64 = is_unsigned(x.dtype) || x.dtype == DType::kBool;
  const bool in_f64 = is_float(x.dtype) || op == ReduceOp::kL2 || op == ReduceOp::kLogSum || op == ReduceOp::kLogSumExp;
  const int64_t per_tile = reduced.count < 4096 ? 4096 / (reduced.count + 1) + 1 : 1;
  parallel_for(args.parallel, static_cast<int>((kept.count + per_tile - 1) / per_tile), [&](int tile, int) {
    const int64_t end = (tile + 1) * per_tile < kept.count ? (tile + 1) * per_tile : kept.count;
    for (int64_t o = tile * per_tile; o < end; ++o) {
      const int64_t base = kept.offset(o);
      double shift = 0;
      if (op == ReduceOp::kLogSumExp) {
        shift = -std::numeric_limits<double>::infinity();
        for (int64_t r = 0; r < reduced.count; ++r) {
          shift = std::fmax(shift, element_as_f64(x.dtype, x.data, base + reduced.offset(r)));
        }
        if (!std::isfinite(shift)) shift = 0;
      }
      Sum sum = start(op, x.dtype);
      for (int64_t r = 0; r < reduced.count; ++r) {
        const int64_t at = base + reduced.offset(r);
        double value = in_f64 ? element_as_f64(x.dtype, x.data, at) : 0;
        if (op == ReduceOp::kLogSumExp) value = std::exp(value - shift);
        add_element(op, value, in_f64 ? 0 : element_as_i64(x.dtype, x.data, at), as_u64, sum);
      }
      if (!in_f64) {
        if (op == ReduceOp::kMean && reduced.count > 0) {
          sum.i64 = as_u64 ? static_cast<int64_t>(static_cast<uint64_t>(sum.i64) / static_cast<uint64_t>(reduced.count))
                           : sum.i64 / reduced.count;
        }
        store_i64(y.dtype, y.data, o, sum.i64);
        continue;
      }
      if (op == ReduceOp::kMean) sum.f64 /= static_cast<double>(reduced.count);
      if (op == ReduceOp::kL2) sum.f64 = std::sqrt(sum.f64);
      if (op == ReduceOp::kLogSum || op == ReduceOp::kLogSumExp) sum.f64 = std::log(sum.f64) + shift;
      store_f64(y.dtype, y.data, o, sum.f64);
    }
  });
}

void arg_reduce_any(const KernelArgs& args) {
  const auto& p = args.params_as<ArgReduceParams>();
  const TensorRef& x = args.in[0];
  const bool in_f64 = is_float(x.dtype);
  const bool as_u64 = is_unsigned(x.dtype);
  const int64_t count = int64_t{p.outer} * p.inner;
  const int64_t per_tile = 4096 / (int64_t{p.axis} + 1) + 1;
  parallel_for(args.parallel, static_cast<int>((count + per_tile - 1) / per_tile), [&](int tile, int) {
    const int64_t end = (tile + 1) * per_tile < count ? (tile + 1) * per_tile : count;
    for (int64_t o = tile * per_tile; o < end; ++o) {
      const int64_t base = o / p.inner * p.axis * p.inner + o % p.inner;
      int64_t best = 0;
      for (int64_t a = 1; a < p.axis; ++a) {
        const int64_t at = base + a * p.inner;
        const int64_t best_at = base + best * p.inner;
        bool better = false;
        if (in_f64) {
          const double value = element_as_f64(x.dtype, x.data, at);
          const double best_value = element_as_f64(x.dtype, x.data, best_at);
          better = p.is_min ? value < best_value : value > best_value;
          better = better || (p.select_last && value == best_value);
        } else {
          const int64_t value = element_as_i64(x.dtype, x.data, at);
          const int64_t best_value = element_as_i64(x.dtype, x.data, best_at);
          better = p.is_min ? less(value, best_value, as_u64) : less(best_value, value, as_u64);
          better = better || (p.select_last && value == best_value);
        }
        if (better) best = a;
      }
      args.out[0].as<int64_t>()[o] = best;
    }
  });
}

}  // namespace kiln::ops::reduce
