#include "cpu/vector_math.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace kiln {
namespace {

// Distance to the true value in units of the last place of a float of that size (subnormals share the
// smallest unit).
double ulp_error(float actual, double expected) {
  const float nearest = static_cast<float>(expected);
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(actual)) return nearest == actual ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(nearest, &exponent);
  return std::fabs(actual - expected) / std::ldexp(1.0, exponent < -125 ? -149 : exponent - 24);
}

struct Case {
  const char* name;
  float (*vector)(float);
  double (*exact)(double);
  double lo, hi;
  double max_ulp;
};

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_silu(double x) { return x / (1 + std::exp(-x)); }

const Case kCases[] = {
    {"exp", scalar_f32<exp_f32x4>, std::exp, -103, 88.7, 2},
    {"exp flushed", scalar_f32<exp_flushed_f32x4>, std::exp, -86.9, 88, 2},
    {"exp near 0", scalar_f32<exp_f32x4>, std::exp, -1, 1, 2},
    {"sigmoid", scalar_f32<sigmoid_f32x4>, exact_sigmoid, -86, 60, 4},
    {"silu", scalar_f32<silu_f32x4>, exact_silu, -86, 60, 4},
    {"tanh", scalar_f32<tanh_f32x4>, std::tanh, -12, 12, 3},
    {"tanh near 0", scalar_f32<tanh_f32x4>, std::tanh, -1e-3, 1e-3, 2},
    {"erf", scalar_f32<erf_f32x4>, std::erf, -6, 6, 3},
    {"erf near 0", scalar_f32<erf_f32x4>, std::erf, -1e-3, 1e-3, 3},
    {"log", scalar_f32<log_f32x4>, std::log, 1e-3, 1e3, 2},
    {"log large", scalar_f32<log_f32x4>, std::log, 1e30, 3e38, 2},
    {"log subnormal", scalar_f32<log_f32x4>, std::log, 1e-44, 1e-38, 2},
};

}  // namespace

TEST_CASE("vector_math_within_a_few_ulp") {
  for (const Case& c : kCases) {
    double worst = 0;
    float worst_at = 0;
    constexpr int kSamples = 20000;
    for (int i = 0; i <= kSamples; ++i) {
      const float x = static_cast<float>(c.lo + (c.hi - c.lo) * i / kSamples);
      const double error = ulp_error(c.vector(x), c.exact(x));
      if (!(error <= worst)) {
        worst = error;
        worst_at = x;
      }
    }
    INFO(c.name, ": ", worst, " ulp at ", worst_at);
    CHECK(worst <= c.max_ulp);
  }
}

TEST_CASE("vector_math_limits") {
  const float inf = INFINITY;
  CHECK(scalar_f32<exp_f32x4>(inf) == inf);
  CHECK(scalar_f32<exp_f32x4>(-inf) == 0);
  CHECK(scalar_f32<exp_f32x4>(200) == inf);
  CHECK(scalar_f32<exp_f32x4>(0) == 1);
  CHECK(scalar_f32<exp_flushed_f32x4>(-88) == 0);
  CHECK(scalar_f32<exp_flushed_f32x4>(-inf) == 0);
  CHECK(scalar_f32<sigmoid_f32x4>(inf) == 1);
  CHECK(scalar_f32<sigmoid_f32x4>(-inf) == 0);
  CHECK(std::fabs(scalar_f32<silu_f32x4>(-1e38f)) == 0);
  CHECK(scalar_f32<silu_f32x4>(1e38f) == 1e38f);
  CHECK(scalar_f32<tanh_f32x4>(inf) == 1);
  CHECK(scalar_f32<tanh_f32x4>(-inf) == -1);
  CHECK(scalar_f32<erf_f32x4>(inf) == 1);
  CHECK(scalar_f32<erf_f32x4>(-inf) == -1);
  CHECK(scalar_f32<log_f32x4>(inf) == inf);
  CHECK(scalar_f32<log_f32x4>(0) == -inf);
  CHECK(std::isnan(scalar_f32<log_f32x4>(-1)));
  for (auto f : {scalar_f32<exp_f32x4>, scalar_f32<exp_flushed_f32x4>, scalar_f32<sigmoid_f32x4>,
                 scalar_f32<silu_f32x4>, scalar_f32<tanh_f32x4>, scalar_f32<erf_f32x4>, scalar_f32<log_f32x4>}) {
    CHECK(std::isnan(f(NAN)));
  }
}

}  // namespace kiln
