// Activations that convolutions, matrix products and additions apply in their epilogue: kinds and plain
// formulas.
#pragma once

#include <cmath>
#include <cstdint>

namespace kiln {

// Stored in params structs: append only.
enum class ActivationKind : int32_t {
  kNone = 0,
  kClip = 1,         // min(max(x, a), b); Relu is a = 0, b = +inf, Relu6 is b = 6
  kLeakyRelu = 2,    // x < 0 ? a * x : x
  kSigmoid = 3,      // 1 / (1 + e^-x)
  kSilu = 4,         // x * sigmoid(x)
  kHardSigmoid = 5,  // max(0, min(1, a * x + b))
  kHardSwish = 6,    // x * max(0, min(1, x / 6 + 0.5))
  kTanh = 7,
};
constexpr int32_t kNumActivations = 8;

struct Activation {
  int32_t kind = 0;  // ActivationKind
  float a = 0;
  float b = 0;
};

// For KernelDef::check.
inline bool is_activation(const Activation& activation) {
  return activation.kind >= 0 && activation.kind < kNumActivations;
}

// The plain formula, for reference kernels; in double so that rounding happens once.
inline double apply_activation(const Activation& activation, double x) {
  switch (static_cast<ActivationKind>(activation.kind)) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kClip:
      return x < activation.a ? activation.a : (x > activation.b ? activation.b : x);
    case ActivationKind::kLeakyRelu:
      return x < 0 ? activation.a * x : x;
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kHardSigmoid:
      return std::fmax(0, std::fmin(1, activation.a * x + activation.b));
    case ActivationKind::kHardSwish:
      return x * std::fmax(0, std::fmin(1, x / 6 + 0.5));
    case ActivationKind::kTanh:
      return std::tanh(x);
  }
  return x;
}

}  // namespace kiln
