// Activations that convolutions, matrix products and additions apply in their epilogue.
#pragma once

#include <cmath>
#include <cstdint>

#include "graph/graph.h"

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

// Reads the attributes `activation` ("Clip", "LeakyRelu", "Sigmoid", "Silu", "HardSigmoid", "HardSwish", "Tanh"; absent
// = none), `activation_a`, `activation_b` that the fusing passes set on a node. Compile side only.
inline Activation read_activation(const Node& node) {
  static constexpr const char* kNames[kNumActivations] = {"",     "Clip",        "LeakyRelu", "Sigmoid",
                                                          "Silu", "HardSigmoid", "HardSwish", "Tanh"};
  Activation activation;
  const std::string name = attr_string(node, "activation", "");
  for (int32_t i = 0; i < kNumActivations; ++i) {
    if (name == kNames[i]) activation.kind = i;
  }
  activation.a = attr_float(node, "activation_a", 0.0f);
  activation.b = attr_float(node, "activation_b", 0.0f);
  return activation;
}

// The plain formula, for reference kernels; in double so that rounding happens once.
inline double apply_activation(const Activation& activation, double x) {
  switch (static_cast<ActivationKind>(activation.kind)) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kClip: return x < activation.a ? activation.a : (x > activation.b ? activation.b : x);
    case ActivationKind::kLeakyRelu: return x < 0 ? activation.a * x : x;
    case ActivationKind::kSigmoid: return 1 / (1 + std::exp(-x));
    case ActivationKind::kSilu: return x / (1 + std::exp(-x));
    case ActivationKind::kHardSigmoid: return std::fmax(0, std::fmin(1, activation.a * x + activation.b));
    case ActivationKind::kHardSwish: return x * std::fmax(0, std::fmin(1, x / 6 + 0.5));
    case ActivationKind::kTanh: return std::tanh(x);
  }
  return x;
}

}  // namespace kiln
